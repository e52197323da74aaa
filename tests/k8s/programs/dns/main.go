// Command dns answers the names of a cluster's services and pods: CoreDNS with the five plugins that this takes.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
)

func main() {
	// In the order in which a question passes them.
	dnsserver.Directives = []string{"bind", "errors", "log", "cache", "kubernetes"}
	coremain.Run()
}

{{/* Parts of checks.yaml: each renders nothing, or fails with the value to change. */}}

{{/* Volumes of users beside ours: an API server would refuse pods of which the half is there. */}}
{{- define "trellis-mesh.checkVolumes" -}}
{{- $everywhere := dict "topology" 1 "context" 1 "tmp" 1 -}}
{{- range $kafka, $_ := .Values.credentials -}}{{- $_ := set $everywhere (include "trellis-mesh.credentialVolume" $kafka) 1 -}}{{- end -}}
{{- $taken := merge (dict "cache" 1 "checkpoint" 1) $everywhere -}}
{{- $ours := dict "/tmp" "writable" "/etc/mesh/mesh.yaml" "read-only" "/etc/mesh/config/trellis-mesh" "read-only" -}}
{{- if .Values.audit.enabled -}}{{- $ours = merge (dict "/cache" "writable" "/var/lib/mesh/checkpoint" "writable") $ours -}}{{- end -}}
{{- $secrets := list .Values.credentials -}}
{{- range .Values.nodes -}}{{- with . -}}{{- $secrets = append $secrets .credentials -}}{{- end -}}{{- end -}}
{{- range $secrets -}}
{{- range $kafka, $_ := . -}}
{{- $_ := set $taken (include "trellis-mesh.credentialVolume" $kafka) 1 -}}
{{- $_ := set $ours (printf "/etc/mesh/kafka/%s" $kafka) "read-only" -}}
{{- end -}}
{{- end -}}
{{- $places := deepCopy $ours -}}
{{- $own := dict -}}
{{- range .Values.extraVolumes -}}
{{- if hasKey $taken .name -}}
{{- fail (printf "extraVolumes: the chart has a volume that is called %s; give yours another name" .name) -}}
{{- end -}}
{{- if hasKey $own .name -}}{{- fail (printf "extraVolumes: two are called %s" .name) -}}{{- end -}}
{{- $_ := set $own .name 1 -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (or (hasKey $own .name) (hasKey $everywhere .name)) -}}
{{- fail (printf "extraVolumeMounts: no volume is called %s in every pod; extraVolumes has: %s" .name (keys $own | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $mount := . -}}
{{- $at := clean .mountPath -}}
{{- if hasKey $places $at -}}
{{- fail (printf "extraVolumeMounts: something is mounted at %s already; mount %s elsewhere" $at .name) -}}
{{- end -}}
{{- range $place := keys $ours | sortAlpha -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" $at)) $place -}}
{{- fail (printf "extraVolumeMounts: %s would hide %s of the chart; mount %s elsewhere" $at $place $mount.name) -}}
{{- end -}}
{{- if and (hasPrefix (printf "%s/" $place) $at) (eq "read-only" (get $ours $place)) -}}
{{- fail (printf "extraVolumeMounts: %s is mounted read-only, so nothing can be mounted at %s; mount %s elsewhere" $place $at $mount.name) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $places $at 1 -}}
{{- end -}}
{{- end -}}

{{/* Containers of users beside the worker, in one pod: their names differ. */}}
{{- define "trellis-mesh.checkContainers" -}}
{{- $root := . -}}
{{- range $node, $settings := include "trellis-mesh.nodes" . | fromJson -}}
{{- $own := concat $root.Values.extraInitContainers (default list $settings.extraInitContainers) $root.Values.extraContainers -}}
{{- $seen := dict "worker" 1 -}}
{{- range $own -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "extraContainers, extraInitContainers: two containers of node %s would be called %s; give yours another name" $node .name) -}}
{{- end -}}
{{- $_ := set $seen .name 1 -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the parts of a toleration have to do with each other. */}}
{{- define "trellis-mesh.checkTolerations" -}}
{{- $given := dict "tolerations" .Values.tolerations -}}
{{- range $node, $settings := .Values.nodes -}}
{{- with $settings -}}{{- $_ := set $given (printf "nodes.%s.tolerations" $node) .tolerations -}}{{- end -}}
{{- end -}}
{{- range $where, $tolerations := $given -}}
{{- range $tolerations -}}
{{- $any := eq "Exists" (default "Equal" .operator) -}}
{{- if and $any .value -}}
{{- fail (printf "%s: with operator Exists any value is tolerated; leave %q out" $where .value) -}}
{{- end -}}
{{- if not (or $any .key) -}}
{{- fail (printf "%s: one without a key has operator Exists; name a key, or the operator" $where) -}}
{{- end -}}
{{- if and (hasKey . "tolerationSeconds") (ne "NoExecute" (default "" .effect)) -}}
{{- fail (printf "%s: tolerationSeconds goes with effect NoExecute; leave it out, or name the effect" $where) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An amount of a resource as a number, to be compared. */}}
{{- define "trellis-mesh.amount" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "[A-Za-z]+$" $text -}}
{{- $sizes := dict "" 1 "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $power := index (dict "Ki" 1 "Mi" 2 "Gi" 3 "Ti" 4 "Pi" 5 "Ei" 6) $unit | default 0 | int -}}
{{- $size := get $sizes $unit | default 1 | float64 -}}
{{- range until $power -}}{{- $size = mulf $size 1024 -}}{{- end -}}
{{- mulf (float64 (trimSuffix $unit $text)) $size -}}
{{- end -}}

{{/* Who raises a request may forget the limit that the chart has set. */}}
{{- define "trellis-mesh.checkResources" -}}
{{- $given := dict "resources" .Values.resources -}}
{{- range $of := list "audit" "dashboard" "evaluationKafka" -}}
{{- $_ := set $given (printf "%s.resources" $of) (index $.Values $of).resources -}}
{{- end -}}
{{- range $node, $settings := .Values.nodes -}}
{{- with $settings -}}{{- $_ := set $given (printf "nodes.%s.resources" $node) .resources -}}{{- end -}}
{{- end -}}
{{- range $where, $resources := $given -}}
{{- $limits := default dict (default dict $resources).limits -}}
{{- range $what, $amount := default dict (default dict $resources).requests -}}
{{- if hasKey $limits $what -}}
{{- $limit := get $limits $what -}}
{{- if gt (include "trellis-mesh.amount" $amount | float64) (include "trellis-mesh.amount" $limit | float64) -}}
{{- fail (printf "%s.requests.%s: %v is more than limits.%s, which is %v; change one of them" $where $what $amount $what $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A pattern would be too long to be told. */}}
{{- define "trellis-mesh.checkPortNumbers" -}}
{{- $given := dict -}}
{{- range $kafka, $servers := .Values.bootstrap -}}{{- $_ := set $given (printf "bootstrap.%s" $kafka) $servers -}}{{- end -}}
{{- with .Values.traces -}}{{- $_ := set $given "traces.endpoint" (include "trellis-mesh.authority" .endpoint) -}}{{- end -}}
{{- range $where, $addresses := $given -}}
{{- range splitList "," $addresses -}}
{{- $port := regexFind "[0-9]+$" . | atoi -}}
{{- if or (lt $port 1) (gt $port 65535) -}}
{{- fail (printf "%s: port %d is not between 1 and 65535" $where $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The topology is a ConfigMap: who may read those may read what stands in it. Which options are
     secret is what `is_secret` says in mesh/transport/kafka/settings.py. */}}
{{- define "trellis-mesh.isSecret" -}}
{{- if and (regexMatch "password|passphrase|secret|token|jaas|key\\.pem|ssl[._]key$|oauthbearer\\.(config|extensions)" .) (not (regexMatch "\\.(url|location|file)$" .)) }}yes{{ end -}}
{{- end -}}

{{- define "trellis-mesh.checkSecrets" -}}
{{- range $kafka, $options := .Values.topology.spec.kafka -}}
{{- range $option, $value := $options -}}
{{- if and (include "trellis-mesh.isSecret" $option) (not (contains "${" (toString $value))) -}}
{{- fail (printf "topology.spec.kafka.%s: %s would stand in a ConfigMap; name it there, as ${file:/etc/mesh/kafka/%s/KEY} of credentials.%s or ${env:NAME} of extraEnv" $kafka $option $kafka $kafka) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Brokers of an evaluation speak in the clear: whoever wants more of them waits for ever. */}}
{{- define "trellis-mesh.checkEvaluation" -}}
{{- $root := . -}}
{{- range $kafka, $options := .Values.topology.spec.kafka -}}
{{- $protocol := get (default dict $options) "security.protocol" | default "plaintext" | toString -}}
{{- if not (or (hasKey $root.Values.bootstrap $kafka) (eq (lower $protocol) "plaintext")) -}}
{{- fail (printf "topology.spec.kafka.%s: security.protocol is %s, and brokers of evaluationKafka have no logins and no encryption; leave it out, or name a broker that has them by bootstrap.%s" $kafka $protocol $kafka) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of a ConfigMap, which has room for 1 MiB with its keys. */}}
{{- define "trellis-mesh.checkSize" -}}
{{- $bytes := len (include "trellis-mesh.topology" .) -}}
{{- if gt $bytes 1048000 -}}
{{- fail (printf "topology.spec: a ConfigMap has room for 1048000 bytes of it, and it has %d; let zones name their nodes instead of links, or shorten names" $bytes) -}}
{{- end -}}
{{- end -}}

{{/* A schema would refuse these too, and only say that `not` failed. */}}
{{- define "trellis-mesh.checkEnv" -}}
{{- $given := dict "extraEnv" .Values.extraEnv -}}
{{- range $node, $settings := .Values.nodes -}}
{{- with $settings -}}{{- $_ := set $given (printf "nodes.%s.extraEnv" $node) .extraEnv -}}{{- end -}}
{{- end -}}
{{- range .Values.extraEnvFrom -}}
{{- if eq (hasKey . "secretRef") (hasKey . "configMapRef") -}}
{{- fail "extraEnvFrom: each names a source, by secretRef or by configMapRef" -}}
{{- end -}}
{{- end -}}
{{- range $where, $vars := $given -}}
{{- range $vars -}}
{{- if and (hasKey . "value") (hasKey . "valueFrom") -}}
{{- fail (printf "%s: %s has value and valueFrom; leave one of them out" $where .name) -}}
{{- end -}}
{{- if and (hasKey . "valueFrom") (ne (len .valueFrom) 1) -}}
{{- fail (printf "%s: valueFrom of %s names one source, as in secretKeyRef: {name: mine, key: password}" $where .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What in this release looks at the whole mesh, or nothing: it has the credentials of no node. */}}
{{- define "trellis-mesh.asksAll" -}}
{{- $ours := dict "topology.apply" .Values.topology.apply "topology.compare" .Values.topology.compare "audit" .Values.audit "dashboard" .Values.dashboard -}}
{{- $on := list -}}
{{- range $name := keys $ours | sortAlpha -}}
{{- if (get $ours $name).enabled -}}{{- $on = append $on $name -}}{{- end -}}
{{- end -}}
{{- join ", " $on -}}
{{- end -}}

{{/* What the topology says of a Kafka cluster holds for all who ask it. */}}
{{- define "trellis-mesh.checkCredentials" -}}
{{- $root := . -}}
{{- $everywhere := default dict .Values.credentials -}}
{{- $variables := dict -}}
{{- range .Values.extraEnv -}}{{- $_ := set $variables .name 1 -}}{{- end -}}
{{- /* What may stand in somebody's Secret or ConfigMap nobody knows here. */ -}}
{{- $referring := ternary "" (toJson .Values.topology.spec.kafka) (not (empty .Values.extraEnvFrom)) -}}
{{- with include "trellis-mesh.asksAll" . -}}
{{- $who := . -}}
{{- range $node, $settings := $root.Values.nodes -}}
{{- range (default dict $settings).extraEnv -}}
{{- if and (not (hasKey $variables .name)) (contains (printf "${env:%s}" .name) $referring) -}}
{{- fail (printf "nodes.%s.extraEnv: what looks at the whole mesh (%s) has no variable %s, which topology.spec.kafka refers to; set it in extraEnv too" $node $who .name) -}}
{{- end -}}
{{- end -}}
{{- range $kafka, $_ := (default dict $settings).credentials -}}
{{- $options := get $root.Values.topology.spec.kafka $kafka | default dict -}}
{{- if and (not (hasKey $everywhere $kafka)) (contains (printf "/etc/mesh/kafka/%s/" $kafka) (toJson $options)) -}}
{{- fail (printf "nodes.%s.credentials.%s: what looks at the whole mesh (%s) has no credentials of Kafka cluster %s; set credentials.%s too" $node $kafka $who $kafka $kafka) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Options lead to files of Secrets: one that nobody mounts is missed by pods, not by Kubernetes.
     Argument: {root, kafka, mounted, who}. */}}
{{- define "trellis-mesh.checkMounted" -}}
{{- $given := . -}}
{{- $options := index .root.Values.topology.spec.kafka .kafka | default dict | toJson -}}
{{- range $folder := regexFindAll "/etc/mesh/kafka/[A-Za-z0-9-]+/" $options -1 -}}
{{- $is := hasKey $given.mounted (base $folder) -}}
{{- range $given.root.Values.extraVolumeMounts -}}
{{- $at := printf "%s/" (clean .mountPath) -}}
{{- if or (hasPrefix $at $folder) (hasPrefix $folder $at) }}{{ $is = true }}{{ end -}}
{{- end -}}
{{- if not $is -}}
{{- fail (printf "topology.spec.kafka.%s: nothing is mounted at %s in %s; correct the path, or set credentials.%s" $given.kafka $folder $given.who (base $folder)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trellis-mesh.checkSecretFiles" -}}
{{- $root := . -}}
{{- $known := default dict .Values.topology.spec.kafka -}}
{{- $everywhere := default dict .Values.credentials -}}
{{- range $node, $settings := include "trellis-mesh.nodes" . | fromJson -}}
{{- $kafka := include "trellis-mesh.kafkaOf" (dict "root" $root "node" $node) -}}
{{- $mounted := merge (dict) (default dict $settings.credentials) $everywhere -}}
{{- include "trellis-mesh.checkMounted" (dict "root" $root "kafka" $kafka "mounted" $mounted "who" (printf "pods of node %s" $node)) -}}
{{- end -}}
{{- with include "trellis-mesh.asksAll" . -}}
{{- $who := printf "what looks at the whole mesh (%s)" . -}}
{{- range $kafka := keys $known | sortAlpha -}}
{{- include "trellis-mesh.checkMounted" (dict "root" $root "kafka" $kafka "mounted" $everywhere "who" $who) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The addresses of a Kafka cluster as they are in force, or nothing. Argument: {root, kafka}. */}}
{{- define "trellis-mesh.servers" -}}
{{- $options := default dict (index .root.Values.topology.spec.kafka .kafka) -}}
{{- get (include "trellis-mesh.addresses" .root | fromJson) .kafka | default (get $options "bootstrap.servers") -}}
{{- end -}}

{{/* The Kafka cluster of a node, which need not name the only one there is. Argument: {root, node}. */}}
{{- define "trellis-mesh.kafkaOf" -}}
{{- $known := default dict .root.Values.topology.spec.kafka -}}
{{- $only := ternary (first (keys $known)) "" (eq (len $known) 1) -}}
{{- get (default dict (index .root.Values.topology.spec.nodes .node)) "kafka" | default $only -}}
{{- end -}}

{{/* A worker asks its own Kafka cluster; what looks at the whole mesh asks all. Those of neighbours
     a worker misses by itself. */}}
{{- define "trellis-mesh.checkAddresses" -}}
{{- $root := . -}}
{{- $known := default dict .Values.topology.spec.kafka -}}
{{- $asked := dict -}}
{{- range $node, $_ := include "trellis-mesh.nodes" . | fromJson -}}
{{- $kafka := include "trellis-mesh.kafkaOf" (dict "root" $root "node" $node) -}}
{{- if not (hasKey $known $kafka) -}}
{{- fail (printf "topology.spec.nodes.%s.kafka: topology.spec.kafka has no Kafka cluster %q; it has: %s" $node $kafka (keys $known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $_ := set $asked $kafka 1 -}}
{{- end -}}
{{- if include "trellis-mesh.asksAll" . }}{{ $asked = $known }}{{ end -}}
{{- range $kafka := keys $asked | sortAlpha -}}
{{- if not (include "trellis-mesh.servers" (dict "root" $root "kafka" $kafka)) -}}
{{- fail (printf "topology.spec.kafka.%s: nobody says where it is: give it bootstrap.servers, or set bootstrap.%s, or evaluationKafka.enabled to try the mesh out" $kafka $kafka) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a policy closes is missed without a word: packets are dropped, and workers wait. */}}
{{- define "trellis-mesh.checkPorts" -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $root := . -}}
{{- $open := list -}}
{{- range .Values.networkPolicy.kafkaPorts -}}{{- $open = append $open (int . | toString) -}}{{- end -}}
{{- range $kafka, $options := .Values.topology.spec.kafka -}}
{{- $wanted := list -}}
{{- range splitList "," (include "trellis-mesh.servers" (dict "root" $root "kafka" $kafka)) -}}
{{- with trim . -}}
{{- if not (contains "${" .) -}}{{- $wanted = append $wanted (regexFind ":[0-9]+$" . | trimPrefix ":" | default "9092") -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with get (default dict $options) "sasl.oauthbearer.token.endpoint.url" -}}
{{- if not (contains "${" .) -}}
{{- $port := regexFind ":[0-9]+$" (include "trellis-mesh.authority" .) | trimPrefix ":" -}}
{{- $wanted = append $wanted ($port | default (ternary "80" "443" (hasPrefix "http://" .))) -}}
{{- end -}}
{{- end -}}
{{- range $wanted -}}
{{- if not (has . $open) -}}
{{- fail (printf "networkPolicy.kafkaPorts: Kafka cluster %s is asked at port %s, which it leaves closed; add it" $kafka .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A parent chart may name this one by an alias that no object could be called: `mesh_East`. */}}
{{- define "trellis-mesh.name" -}}
{{- $chart := regexReplaceAll "[^a-z0-9-]" (lower .Chart.Name) "-" | trimAll "-" -}}
{{- include "trellis-mesh.short" (dict "text" (default $chart .Values.nameOverride) "max" 40) -}}
{{- end -}}

{{/* A name is not repeated that the release's has; of several aliases it may have all by chance. */}}
{{- define "trellis-mesh.fullname" -}}
{{- $name := include "trellis-mesh.name" . -}}
{{- $isAlias := and (empty .Values.nameOverride) (ne .Chart.Name "trellis-mesh") -}}
{{- $repeats := and (contains $name .Release.Name) (not $isAlias) -}}
{{- $text := ternary .Release.Name (printf "%s-%s" .Release.Name $name) $repeats -}}
{{- $text = default $text .Values.fullnameOverride | replace "." "-" -}}
{{- if not (regexMatch "^[a-z]" $text) -}}
{{- fail (printf "%s: a Service's name begins with a letter: name the release so, or set fullnameOverride" $text) -}}
{{- end -}}
{{- include "trellis-mesh.short" (dict "text" $text "max" 40) -}}
{{- end -}}

{{/* A text of at most `max` characters that ends with a letter or digit; different texts stay
     different, for what had to be cut gets a hash of the whole. */}}
{{- define "trellis-mesh.short" -}}
{{- if or (gt (len .text) (int .max)) (hasSuffix "-" .text) -}}
{{- printf "%s-%s" (.text | trunc (int (sub .max 9)) | trimAll "-") (.text | sha256sum | trunc 8) -}}
{{- else -}}
{{- .text -}}
{{- end -}}
{{- end -}}

{{/* The name of a node's workload: node names differ whatever their case; a StatefulSet's name may
     have 52 characters, for its pods carry it in a label of 63. */}}
{{- define "trellis-mesh.nodeFullname" -}}
{{- $name := printf "%s-%s" (include "trellis-mesh.fullname" .root) (lower .node) -}}
{{- include "trellis-mesh.short" (dict "text" $name "max" 52) -}}
{{- end -}}

{{- define "trellis-mesh.nodeLabel" -}}
{{- include "trellis-mesh.short" (dict "text" . "max" 63) -}}
{{- end -}}

{{- define "trellis-mesh.credentialVolume" -}}
{{- include "trellis-mesh.short" (dict "text" (printf "kafka-%s" (lower .)) "max" 63) -}}
{{- end -}}

{{- define "trellis-mesh.selector" -}}
app.kubernetes.io/name: {{ include "trellis-mesh.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* The labels by which pods are chosen. Of this and the two below the argument is
     {root, component, node, kafka, more}, all but the root as far as it has them; `more` are labels
     that users want there. Ours win over those of users, or nothing would be chosen. */}}
{{- define "trellis-mesh.identity" -}}
{{- $ours := include "trellis-mesh.selector" .root | fromYaml -}}
{{- with .component }}{{ $_ := set $ours "app.kubernetes.io/component" . }}{{ end -}}
{{- with .node }}{{ $_ := set $ours "mesh/node" (include "trellis-mesh.nodeLabel" .) }}{{ end -}}
{{- with .kafka }}{{ $_ := set $ours "mesh/kafka" (include "trellis-mesh.nodeLabel" .) }}{{ end -}}
{{- toYaml $ours -}}
{{- end -}}

{{/* Of pods: no versions, so that an upgrade of the chart alone restarts nothing. */}}
{{- define "trellis-mesh.podLabels" -}}
{{- $ours := include "trellis-mesh.identity" . | fromYaml -}}
{{- toYaml (mergeOverwrite (dict) (default dict .root.Values.labels) (default dict .more) $ours) -}}
{{- end -}}

{{- define "trellis-mesh.labels" -}}
{{- $chart := .root.Chart -}}
{{- $about := dict
    "app.kubernetes.io/part-of" "trellis-mesh"
    "app.kubernetes.io/version" $chart.AppVersion
    "app.kubernetes.io/managed-by" .root.Release.Service
    "helm.sh/chart" (printf "%s-%s" $chart.Name $chart.Version | replace "+" "_" | trunc 63 | trimAll "-_.") -}}
{{- toYaml (mergeOverwrite (include "trellis-mesh.podLabels" . | fromYaml) $about) -}}
{{- end -}}

{{/* What pods are restarted by, beside what users want to note. */}}
{{- define "trellis-mesh.podAnnotations" -}}
{{- $ours := dict "checksum/topology" (include "trellis-mesh.restartedBy" . | sha256sum) -}}
{{- toYaml (mergeOverwrite (dict) (default dict .Values.podAnnotations) $ours) -}}
{{- end -}}

{{- define "trellis-mesh.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "trellis-mesh.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "trellis-mesh.configMap" -}}
{{- default (printf "%s-topology" (include "trellis-mesh.fullname" .)) .Values.topology.existingConfigMap -}}
{{- end -}}

{{/* The topology file. */}}
{{- define "trellis-mesh.topology" -}}
apiVersion: mesh/v1
kind: Mesh
metadata:
  name: {{ .Values.topology.name | quote }}
spec:
  {{- toYaml .Values.topology.spec | nindent 2 }}
{{- end -}}

{{/* What pods must start again for. A topology that is applied, by this release or by another, is
     followed by nodes that run; how they reach Kafka they read at their start. */}}
{{- define "trellis-mesh.restartedBy" -}}
{{- if or .Values.topology.apply.enabled .Values.topology.compare.enabled -}}
{{- toYaml (dig "kafka" (dict) .Values.topology.spec) -}}
{{- else -}}
{{- include "trellis-mesh.topology" . -}}
{{- end -}}
{{- end -}}

{{/* The nodes to serve, as JSON {name: settings}; says what is missing when there are none. */}}
{{- define "trellis-mesh.nodes" -}}
{{- $known := dig "nodes" (dict) .Values.topology.spec -}}
{{- $found := dict -}}
{{- range $node, $settings := .Values.nodes -}}
{{- if and (not $.Values.topology.existingConfigMap) (not (hasKey $known $node)) -}}
{{- fail (printf "nodes.%s: topology.spec.nodes has no such node; it has: %s" $node (keys $known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $_ := set $found $node (default (dict) $settings) -}}
{{- end -}}
{{- if and (not $found) (not .Values.topology.existingConfigMap) -}}
{{- range $node, $_ := $known -}}{{- $_ := set $found $node (dict) -}}{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail "no nodes to serve: set topology.spec (kafka, nodes, zones), or topology.existingConfigMap and nodes" -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* Where a URL leads to: the host, and the port if there is one. Helm's own parser ends a rendering
     over an odd URL without the name of the value. */}}
{{- define "trellis-mesh.authority" -}}
{{- regexReplaceAll "^[a-z]+://([^/?#]*).*$" . "${1}" -}}
{{- end -}}

{{/* A digest says more than a tag. */}}
{{- define "trellis-mesh.image" -}}
{{- with .image.registry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{- .image.repository -}}
{{- with .image.digest }}@{{ . }}{{ else }}:{{ default $.root.Chart.AppVersion $.image.tag }}{{ end -}}
{{- end -}}

{{- define "trellis-mesh.workers" -}}
{{- if hasKey .settings "workers" }}{{ .settings.workers }}{{ else }}{{ .root.Values.workers }}{{ end -}}
{{- end -}}

{{/* The name of an evaluation broker's workload and service. */}}
{{- define "trellis-mesh.kafkaFullname" -}}
{{- $name := printf "%s-kafka-%s" (include "trellis-mesh.fullname" .root) (lower .kafka) -}}
{{- include "trellis-mesh.short" (dict "text" $name "max" 52) -}}
{{- end -}}

{{/* Addresses of Kafka clusters that win over the topology's, as JSON. */}}
{{- define "trellis-mesh.addresses" -}}
{{- $addresses := dict -}}
{{- if .Values.evaluationKafka.enabled -}}
{{- range $name, $_ := dig "kafka" (dict) .Values.topology.spec -}}
{{- $_ := set $addresses $name (printf "%s:9092" (include "trellis-mesh.kafkaFullname" (dict "root" $ "kafka" $name))) -}}
{{- end -}}
{{- end -}}
{{- range $name, $address := .Values.bootstrap -}}{{- $_ := set $addresses $name $address -}}{{- end -}}
{{- toJson $addresses -}}
{{- end -}}

{{- define "trellis-mesh.bootstrapArgs" -}}
{{- $words := list -}}
{{- range $name, $address := include "trellis-mesh.addresses" . | fromJson -}}
{{- $words = concat $words (list "--bootstrap" (printf "%s=%s" $name $address)) -}}
{{- end -}}
{{- if $words }}{{ toYaml $words }}{{ end -}}
{{- end -}}

{{/* The root with a node's own placement, as JSON: for trellis-mesh.podCommon. */}}
{{- define "trellis-mesh.placed" -}}
{{- $values := .root.Values -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" -}}
{{- if hasKey $.settings $key -}}
{{- $values = merge (dict $key (index $.settings $key)) (omit $values $key) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "Values" $values "Chart" (dict "Name" .root.Chart.Name) "Release" (dict "Name" .root.Release.Name)) -}}
{{- end -}}

{{/* Nobody but the rollout needs a token. */}}
{{- define "trellis-mesh.account" -}}
serviceAccountName: {{ include "trellis-mesh.serviceAccount" . | quote }}
automountServiceAccountToken: false
{{- end -}}

{{/* Helm forgets jobs that failed, also when it uninstalls: they go by themselves after a day. */}}
{{- define "trellis-mesh.jobKeptSeconds" -}}86400{{- end -}}

{{/* A machine may have to be made first and an image fetched. How long to wait for that is for
     Helm's `--timeout` to say; a deadline ends jobs for which nobody waits any more. */}}
{{- define "trellis-mesh.podStartSeconds" -}}600{{- end -}}

{{/* What every pod has in common but its account and its containers. */}}
{{- define "trellis-mesh.podCommon" -}}
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Of these three the argument is {root, settings, own}: settings are those of one node, and own
     are variables that the chart sets beside its usual one. Each name comes once, as it is said
     last: by the node, else by the release, else by the chart. */}}
{{- define "trellis-mesh.env" -}}
{{- $usual := list (dict "name" "XDG_CONFIG_HOME" "value" "/etc/mesh/config") -}}
{{- $said := concat $usual (default list .own) .root.Values.extraEnv (default list .settings.extraEnv) -}}
{{- $names := dict -}}
{{- $vars := list -}}
{{- range reverse $said -}}
{{- if not (hasKey $names .name) -}}
{{- $_ := set $names .name true -}}
{{- $vars = prepend $vars . -}}
{{- end -}}
{{- end -}}
{{- $env := dict "env" $vars -}}
{{- with .root.Values.extraEnvFrom }}{{ $_ := set $env "envFrom" . }}{{ end -}}
{{- toYaml $env -}}
{{- end -}}

{{- define "trellis-mesh.volumeMounts" -}}
- {name: topology, mountPath: /etc/mesh/mesh.yaml, subPath: mesh.yaml, readOnly: true}
- {name: context, mountPath: /etc/mesh/config/trellis-mesh, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range $name, $_ := merge (dict) (default dict .settings.credentials) .root.Values.credentials }}
- {name: {{ include "trellis-mesh.credentialVolume" $name }}, mountPath: {{ printf "/etc/mesh/kafka/%s" $name | quote }}, readOnly: true}
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "trellis-mesh.volumes" -}}
- name: topology
  configMap: {name: {{ include "trellis-mesh.configMap" .root | quote }}}
- name: context
  configMap: {name: {{ printf "%s-context" (include "trellis-mesh.fullname" .root) | quote }}}
- name: tmp
  emptyDir: {}
{{- range $name, $settings := merge (dict) (default dict .settings.credentials) .root.Values.credentials }}
- name: {{ include "trellis-mesh.credentialVolume" $name | quote }}
  # 0440, which YAML 1.2 would read as 440
  secret: {secretName: {{ $settings.existingSecret | quote }}, defaultMode: 288}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of whatever the release owns. */}}
{{- define "berth.labels" -}}
app.kubernetes.io/part-of: berth
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/*
The objects of a file below files/, which are copies of manifests/ (make generate): in the release's namespace, with its labels.
Names stay as they are. They are the cluster's, not the release's: one Berth a cluster.
Arguments: root, file, and keep if uninstalling leaves them, labels for more labels, annotations for more of ServiceAccounts.
*/}}
{{- define "berth.file" -}}
{{- $root := .root }}
{{- $keep := .keep }}
{{- $more := .labels | default dict }}
{{- $annotations := .annotations | default dict }}
{{- $text := $root.Files.Get .file | required (printf "files/ has no %s: run make generate" .file) }}
{{- range $document := regexSplit "(?m)^---\\s*$" $text -1 }}
{{- $object := $document | replace "berth-system" $root.Release.Namespace | fromYaml }}
{{- if $object.Error }}{{ fail $object.Error }}{{ end }}
{{- if $object.kind }}
{{- $metadata := $object.metadata }}
{{- $_ := set $metadata "labels" (merge (include "berth.labels" $root | fromYaml) $more ($metadata.labels | default dict)) }}
{{- if $keep }}
{{- $_ := set $metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") ($metadata.annotations | default dict)) }}
{{- end }}
{{- if and $annotations (eq $object.kind "ServiceAccount") }}
{{- $_ := set $metadata "annotations" (merge $annotations ($metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}

{{/*
The rights of a file, as berth.file has them, but what is written, and Secrets and logs, only in some namespaces: for each
ClusterRole one more, NAME-namespaced, that RoleBindings grant there. Lists and watches stay: what other pods take of a node counts
wherever they are. Without namespaces it is berth.file.
Arguments: those of berth.file, and namespaces.
*/}}
{{- define "berth.rights" -}}
{{- if not .namespaces }}
{{ include "berth.file" . }}
{{- else }}
{{- $root := .root }}
{{- $namespaces := .namespaces }}
{{- range $document := regexSplit "(?m)^---\\s*$" (include "berth.file" .) -1 }}
{{- $object := fromYaml $document }}
{{- if eq ($object.kind | default "") "ClusterRole" }}
{{- $stay := list }}
{{- $narrow := list }}
{{- range $rule := $object.rules }}
{{- if or (has "secrets" $rule.resources) (has "pods/log" $rule.resources) }}
{{- $narrow = append $narrow $rule }}
{{- else if include "berth.clusterWide" $rule }}
{{- $stay = append $stay $rule }}
{{- else }}
{{- $reads := list }}
{{- $writes := list }}
{{- range $verb := $rule.verbs }}
{{- if has $verb (list "get" "list" "watch") }}{{- $reads = append $reads $verb }}{{- else }}{{- $writes = append $writes $verb }}{{- end }}
{{- end }}
{{- if $reads }}{{- $stay = append $stay (merge (dict "verbs" $reads) (omit $rule "verbs")) }}{{- end }}
{{- if $writes }}{{- $narrow = append $narrow (merge (dict "verbs" $writes) (omit $rule "verbs")) }}{{- end }}
{{- end }}
{{- end }}
---
{{ toYaml (set $object "rules" $stay) }}
{{- if $narrow }}
{{- $name := printf "%s-namespaced" $object.metadata.name }}
---
{{ toYaml (merge (dict "metadata" (dict "name" $name "labels" $object.metadata.labels) "rules" $narrow) (omit $object "metadata" "rules")) }}
{{- range $namespace := $namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $namespace }}
  labels: {{- toYaml $object.metadata.labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ if hasPrefix "berth-scheduler" $name }}berth-scheduler{{ else }}berth-controller{{ end }}
  namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- else if $object.kind }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty for a rule of what is in no namespace, of events, or of the status of Berth's own resources. */}}
{{- define "berth.clusterWide" -}}
{{- range .resources }}
{{- if or (has . (list "namespaces" "nodes" "persistentvolumes" "events" "tokenreviews" "subjectaccessreviews" "mutatingwebhookconfigurations"))
  (and (hasSuffix "/status" .) (has "berth.dev" $.apiGroups)) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* The image of a program, by digest if there is one. Arguments: root, name, values. */}}
{{- define "berth.image" -}}
{{ .root.Values.image.registry }}/{{ .name }}
{{- with dig "image" "digest" "" .values }}@{{ . }}{{ else }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* KubeSchedulerConfiguration: the shipped profile, with the arguments of the values. */}}
{{- define "berth.schedulerConfig" -}}
{{- $config := .Files.Get (printf "files/scheduler/%s.yaml" .Values.scheduler.profile) | replace "berth-system" .Release.Namespace | fromYaml }}
{{- $arguments := dict "CapacityMix" .Values.scheduler.capacityMix "ResourceLimit" .Values.scheduler.resourceLimit }}
{{- range $profile := $config.profiles }}
{{- range $plugin := $profile.pluginConfig }}
{{- with get $arguments $plugin.name }}
{{- $_ := set $plugin "args" (mergeOverwrite (deepCopy $plugin.args) (deepCopy .)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.scheduler.config)) }}
{{- end }}

{{/* ControllerConfiguration: what the values say. The rest are its defaults. */}}
{{- define "berth.controllerConfig" -}}
{{- $config := dict "apiVersion" "config.berth.dev/v1alpha1" "kind" "ControllerConfiguration" }}
{{- if .Values.webhook.enabled }}
{{- $_ := set $config "webhook" (dict "enabled" true "gates" .Values.webhook.gates) }}
{{- end }}
{{- if .Values.services.enabled }}
{{- $services := dict "bindAddress" ":9444" "certFile" "/etc/berth/services-tls/tls.crt" "keyFile" "/etc/berth/services-tls/tls.key" }}
{{- if .Values.services.clientCertificates }}
{{- $_ := set $services "clientCAFile" "/etc/berth/services-tls/ca.crt" }}
{{- end }}
{{- $_ := set $config "services" $services }}
{{- end }}
{{- if .Values.deployments.enabled }}
{{- $_ := set $config "deployments" (dict "enabled" true) }}
{{- end }}
{{- if .Values.environments.enabled }}
{{- $_ := set $config "environments" (dict "enabled" true) }}
{{- end }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.controller.config)) }}
{{- end }}

{{/* What both Deployments have in common. Arguments: root, name, values. */}}
{{- define "berth.podMetadata" -}}
labels:
  app.kubernetes.io/part-of: berth
  app.kubernetes.io/name: {{ .name }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ .name }}
  # What changes with the configuration, so that the pods do.
  {{- range $name, $config := .configs }}
  checksum/{{ $name }}: {{ $config | sha256sum }}
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "berth.placement" -}}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
# Not by itself: it could never start again.
schedulerName: default-scheduler
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
affinity:
{{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
{{- else }}
  nodeAffinity:
    # Whoever replaces what a reclaim took had better not go with it.
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
        - {key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}
        - {key: eks.amazonaws.com/capacityType, operator: NotIn, values: [SPOT]}
        - {key: cloud.google.com/gke-spot, operator: DoesNotExist}
        - {key: cloud.google.com/gke-preemptible, operator: DoesNotExist}
        - {key: kubernetes.azure.com/scalesetpriority, operator: NotIn, values: [spot]}
{{- end }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "berth.container" -}}
name: {{ .name }}
image: {{ include "berth.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env:
# The program keeps below it: docs/install.md.
- name: BERTH_MEMORY_LIMIT
  valueFrom: {resourceFieldRef: {resource: limits.memory}}
resources: {{- toYaml .values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "berth.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "berth.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
{{- end }}

{{- define "berth.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "berth.labels" .root | nindent 4 }}
spec:
  selector: {app.kubernetes.io/name: {{ .name }}}
  ports:
  - {name: https, port: {{ .port }}, targetPort: https}
{{- end }}

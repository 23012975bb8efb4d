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
{{- $single := $root.Values.singleProcess }}
{{- $text := $root.Files.Get .file | required (printf "files/ has no %s: run make generate" .file) }}
{{- range $document := regexSplit "(?m)^---\\s*$" $text -1 }}
{{- $object := $document | replace "berth-system" $root.Release.Namespace | fromYaml }}
{{- if $object.Error }}{{ fail $object.Error }}{{ end }}
{{- if and $single (eq ($object.kind | default "") "ServiceAccount") (include "berth.part" $object.metadata) }}
{{- $object = dict }}
{{- end }}
{{- if $object.kind }}
{{- $metadata := $object.metadata }}
{{- if and $single (has $object.kind (list "RoleBinding" "ClusterRoleBinding")) }}
{{- range $subject := $object.subjects }}
{{- if include "berth.part" $subject }}{{ $_ := set $subject "name" "berth-controller" }}{{ end }}
{{- end }}
{{- end }}
{{- if and $single (eq $object.kind "Service") (has $metadata.name (list "berth" "berth-environments-api")) }}
{{- $_ := set $object.spec "selector" (dict "app.kubernetes.io/name" "berth-controller") }}
{{- end }}
{{- if and $single (eq $object.kind "NetworkPolicy") (has $metadata.name (list "berth-services" "berth-environments-api")) }}
{{- $_ := set $object.spec.podSelector "matchLabels" (dict "app.kubernetes.io/name" "berth-controller") }}
{{- end }}
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

{{/* Not empty for the ServiceAccounts of what runs in processes of its own, unless singleProcess is set. */}}
{{- define "berth.part" -}}
{{- if has .name (list "berth-records" "berth-environments") }}yes{{ end }}
{{- end }}

{{/* Not empty if there is a process for DeploymentRecords, or for the services that it has. */}}
{{- define "berth.recordsProcess" -}}
{{- if and (or .Values.records.enabled .Values.services.enabled) (not .Values.singleProcess) }}yes{{ end }}
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
  name: {{ ternary "berth-controller" (regexFind "^berth-(records|environments|controller)" $name) $root.Values.singleProcess }}
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
{{ .root.Values.image.registry }}/{{ .image | default .name }}
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

{{/* Nine tenths of a quantity of memory in MiB, as GOMEMLIMIT has it; empty for a quantity in another form. */}}
{{- define "berth.goMemLimit" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $unit := regexFind "(k|M|G|T|Ki|Mi|Gi|Ti)?$" (toString .) }}
{{- $number := trimSuffix $unit (toString .) }}
{{- if regexMatch "^[0-9]+([.][0-9]+)?$" $number }}
{{- printf "%dMiB" (int64 (divf (mulf (float64 $number) (float64 (get $units $unit)) 0.9) 1048576)) }}
{{- end }}
{{- end }}

{{/* The section services of a ControllerConfiguration. */}}
{{- define "berth.servicesConfig" -}}
{{- if .Values.services.enabled }}
services:
  bindAddress: ":9444"
  certFile: /etc/berth/services-tls/tls.crt
  keyFile: /etc/berth/services-tls/tls.key
  {{- if .Values.services.clientCertificates }}
  clientCAFile: /etc/berth/services-tls/ca.crt
  {{- end }}
  {{- with .Values.services.grpcWeb }}
  {{- if .enabled }}
  grpcWeb: {{ dict "enabled" true "allowedOrigins" .allowedOrigins | toJson }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* ControllerConfiguration of berth-controller, from the values. Other fields have their defaults. */}}
{{- define "berth.controllerConfig" -}}
{{- $config := dict "apiVersion" "config.berth.dev/v1alpha1" "kind" "ControllerConfiguration" }}
{{- if .Values.webhook.enabled }}
{{- $_ := set $config "webhook" (dict "enabled" true "gates" .Values.webhook.gates) }}
{{- end }}
{{- if .Values.controller.prices }}
{{- $_ := set $config "mix" (dict "savings" (dict "pricesFile" "/etc/berth/controller/prices.yaml")) }}
{{- end }}
{{- if .Values.singleProcess }}
{{- $controllers := list "*" }}
{{- range $feature := list "records" "environments" }}
{{- if (get $.Values $feature).enabled }}{{ $controllers = append $controllers $feature }}{{ end }}
{{- end }}
{{- $_ := set $config "controllers" $controllers }}
{{- $config = mergeOverwrite $config (include "berth.servicesConfig" . | fromYaml) (deepCopy .Values.records.config) (deepCopy .Values.environments.config) }}
{{- end }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.controller.config)) }}
{{- end }}

{{/* ControllerConfiguration of berth-records. Without records it serves ResourceLimits and DeploymentRecords, and nothing leads. */}}
{{- define "berth.recordsConfig" -}}
{{- $config := dict "apiVersion" "config.berth.dev/v1alpha1" "kind" "ControllerConfiguration" "controllers" (list "records") }}
{{- if not .Values.records.enabled }}
{{- $_ := set $config "controllers" (list) }}
{{- $_ := set $config "leaderElection" (dict "enabled" false) }}
{{- end }}
{{- toYaml (mergeOverwrite $config (include "berth.servicesConfig" . | fromYaml) (deepCopy .Values.records.config)) }}
{{- end }}

{{/* ControllerConfiguration of berth-environments. */}}
{{- define "berth.environmentsConfig" -}}
{{- $config := dict "apiVersion" "config.berth.dev/v1alpha1" "kind" "ControllerConfiguration" "controllers" (list "environments") }}
{{- toYaml (mergeOverwrite $config (include "berth.servicesConfig" . | fromYaml) (deepCopy .Values.environments.config)) }}
{{- end }}

{{/*
A Deployment of berth-controller with its configuration, Service and policies.
Arguments: root, name, product (its folder in files/), values, config, configs (for checksums), and image, schedulerProfile, webhook,
serves (if it serves gRPC and REST).
*/}}
{{- define "berth.controller" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}-config
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "berth.labels" .root | nindent 4 }}
data:
  config.yaml: |
    {{- .config | nindent 4 }}
  {{- with .values.prices }}
  prices.yaml: |
    {{- toYaml . | nindent 4 }}
  {{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    app.kubernetes.io/name: {{ .name }}
    {{- include "berth.labels" .root | nindent 4 }}
spec:
  # One leads; all serve the webhook and the services, if they are enabled.
  replicas: {{ .values.replicas }}
  strategy:
    rollingUpdate: {maxUnavailable: 1, maxSurge: 1}
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
  template:
    metadata: {{- include "berth.podMetadata" . | nindent 6 }}
    spec:
      serviceAccountName: {{ .name }}
      {{- include "berth.placement" . | nindent 6 }}
      containers:
      - {{- include "berth.container" . | nindent 8 }}
        args:
        - --config=/etc/berth/{{ .product }}/config.yaml
        {{- with .schedulerProfile }}
        - --scheduler-config=/etc/berth/scheduler/{{ . }}.yaml
        {{- end }}
        {{- with .values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: https, containerPort: 8443}
        - {name: health, containerPort: 8081}
        {{- if .webhook }}
        - {name: webhook, containerPort: 9443}
        {{- end }}
        {{- if .serves }}
        - {name: services, containerPort: 9444}
        {{- end }}
        readinessProbe:
          # It reports what is missing, such as a CustomResourceDefinition.
          httpGet: {path: /readyz, port: health}
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          failureThreshold: 6
        volumeMounts:
        - {name: config, mountPath: /etc/berth/{{ .product }}, readOnly: true}
        {{- if .schedulerProfile }}
        - {name: scheduler, mountPath: /etc/berth/scheduler, readOnly: true}
        {{- end }}
        {{- if .serves }}
        - {name: services-tls, mountPath: /etc/berth/services-tls, readOnly: true}
        {{- end }}
      volumes:
      - name: config
        configMap: {name: {{ .name }}-config}
      {{- if .schedulerProfile }}
      - name: scheduler
        configMap: {name: berth-scheduler-config}
      {{- end }}
      {{- if .serves }}
      - name: services-tls
        secret: {secretName: {{ .root.Values.services.tlsSecret }}}
      {{- end }}
{{- if .root.Values.podDisruptionBudgets }}
---
{{ include "berth.budget" . }}
{{- end }}
---
{{ include "berth.service" (merge (dict "port" 8443) .) }}
{{- if .root.Values.networkPolicies }}
---
{{- include "berth.file" (dict "root" .root "file" (printf "files/%s/networkpolicy.yaml" .product)) }}
{{- end }}
{{- end }}

{{/* What all Deployments have in common. Arguments: root, name, values. */}}
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
    # A spot reclaim must not take the program that replaces what it took.
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
{{- with include "berth.goMemLimit" (dig "limits" "memory" "" .values.resources) }}
env:
# Nine tenths of the memory limit: docs/install.md.
- {name: GOMEMLIMIT, value: {{ . }}}
{{- end }}
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

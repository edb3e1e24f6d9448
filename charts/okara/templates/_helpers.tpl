{{- define "okara.labels" -}}
app.kubernetes.io/name: {{ include "okara.app" . }}
app.kubernetes.io/part-of: okara
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- /* The label by which the pods of a component are selected. */}}
{{- define "okara.app" -}}
{{ .root.Values.nameOverride | default "okara" }}{{ trimPrefix "okara" .name }}
{{- end }}

{{- define "okara.select" -}}
{app.kubernetes.io/name: {{ include "okara.app" . }}}
{{- end }}

{{- define "okara.image" -}}
{{ .own.image.repository | default (printf "%s/images/%s" (.root.Values.image.registry | default .root.Values.registry) .name) }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "okara.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "okara.labels" . | nindent 4 }}
  {{- with .own.serviceAccount.annotations }}
  annotations: {{ toJson . }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{- /* The metadata of pods, whose labels of the chart cannot be replaced: they are selected by. */}}
{{- define "okara.podMeta" -}}
labels: {{- merge (include "okara.labels" . | fromYaml) .own.podLabels | toYaml | nindent 2 }}
{{- with merge .annotations .own.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The account that a policy lets do what is the operator's. */}}
{{- define "okara.operator" -}}
system:serviceaccount:{{ .Release.Namespace }}:okara-operator
{{- end }}

{{- /* Go collects garbage before the limit of the pod ends it: at nine tenths of a limit in Mi or Gi. */}}
{{- define "okara.memory" -}}
{{- $mi := int (regexFind "^[0-9]+" .) }}
{{- if hasSuffix "Gi" . }}{{ $mi = mul $mi 1024 }}{{ end }}
{{- div (mul $mi 9) 10 }}MiB
{{- end }}

{{- define "okara.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .own.initContainers }}
initContainers: {{ toJson . }}
{{- end }}
{{- with .own.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .own.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .own.affinity }}
affinity: {{ toJson . }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {{ include "okara.select" . }}}
{{- end }}

{{- define "okara.container" -}}
image: {{ include "okara.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  requests: {cpu: {{ .own.cpu }}, memory: {{ .own.memory }}, ephemeral-storage: {{ .own.ephemeralStorage }}}
  limits: {memory: {{ .own.memory }}}
{{- with .own.envFrom }}
envFrom: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "okara.env" -}}
- {name: GOMEMLIMIT, value: {{ include "okara.memory" .own.memory }}}
- {name: TMPDIR, value: /tmp}
- {name: HOME, value: /tmp}
{{- if and .root.Values.registrySecret (ne .name "okara-portal") }}
- {name: DOCKER_CONFIG, value: /etc/okara/registry}
{{- end }}
{{- range .own.extraEnv }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{- define "okara.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if and .root.Values.registrySecret (ne .name "okara-portal") }}
- {name: registry, mountPath: /etc/okara/registry, readOnly: true}
{{- end }}
{{- if .root.Values.caBundle.configMap }}
- {name: ca, mountPath: /etc/okara/ca, readOnly: true}
{{- end }}
{{- range .own.extraVolumeMounts }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{- /* The portal has no credentials of the registry. */}}
{{- define "okara.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .own.temporary }}}
{{- if and .root.Values.registrySecret (ne .name "okara-portal") }}
- name: registry
  secret: {secretName: {{ .root.Values.registrySecret }}, items: [{key: .dockerconfigjson, path: config.json}]}
{{- end }}
{{- if .root.Values.caBundle.configMap }}
- name: ca
  configMap: {name: {{ .root.Values.caBundle.configMap }}, items: [{key: {{ .root.Values.caBundle.key }}, path: ca.crt}]}
{{- end }}
{{- range .own.extraVolumes }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{- /* What the values name that pods call, a line each. */}}
{{- define "okara.peers" -}}
{{ .Values.registry }}
{{ .Values.runs.serve }}
{{- range .Values.operator.allowOrigins }}
{{ . }}
{{- end }}
{{- range concat .Values.frontEnd.issuers .Values.portal.issuers }}
{{ .url }}
{{- end }}
{{- end }}

{{- /* Where a pod may go: not to link-local addresses, where clouds tell nodes who they are. */}}
{{- define "okara.outside" -}}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
    - ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"]}
    - namespaceSelector: {}
  ports:
  {{- $ports := list }}
  {{- range .Values.networkPolicy.ports }}{{ $ports = append $ports (int .) }}{{ end }}
  {{- range include "okara.peers" . | splitList "\n" }}
  {{- with regexFind ":[0-9]+(/|$)" . }}{{ $ports = append $ports (int (trimAll ":/" .)) }}{{ end }}
  {{- end }}
  {{- range uniq $ports }}
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
- to: [{namespaceSelector: {}}, {ipBlock: {cidr: 169.254.20.10/32}}]
  ports:
  {{- range .Values.networkPolicy.dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The API server. Where it runs on nodes, Cilium matches it by no address: by its port alone. */}}
{{- define "okara.apiServer" -}}
- ports:
  {{- range .Values.networkPolicy.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
  {{- with .Values.networkPolicy.apiServer }}
  to:
  {{- range . }}
    - ipBlock: {cidr: {{ . }}}
  {{- end }}
  {{- end }}
{{- end }}

{{- define "okara.binding" }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- .labels | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}

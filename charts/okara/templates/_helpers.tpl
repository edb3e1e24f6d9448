{{- define "okara.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: okara
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "okara.image" -}}
{{ .root.Values.image.registry | default .root.Values.registry }}/images/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
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
    labelSelector: {matchLabels: {app.kubernetes.io/name: {{ .name }}}}
{{- end }}

{{- define "okara.container" -}}
image: {{ include "okara.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources:
  requests: {cpu: {{ .own.cpu }}, memory: {{ .own.memory }}}
  limits: {memory: {{ .own.memory }}}
{{- end }}

{{- define "okara.env" -}}
- {name: GOMEMLIMIT, value: {{ include "okara.memory" .own.memory }}}
- {name: TMPDIR, value: /tmp}
- {name: HOME, value: /tmp}
{{- if .root.Values.registrySecret }}
- {name: DOCKER_CONFIG, value: /etc/okara/registry}
{{- end }}
{{- end }}

{{- define "okara.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .root.Values.registrySecret }}
- {name: registry, mountPath: /etc/okara/registry, readOnly: true}
{{- end }}
{{- if .root.Values.caBundle.configMap }}
- {name: ca, mountPath: /etc/okara/ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "okara.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .own.temporary }}}
{{- if .root.Values.registrySecret }}
- name: registry
  secret: {secretName: {{ .root.Values.registrySecret }}, items: [{key: .dockerconfigjson, path: config.json}]}
{{- end }}
{{- if .root.Values.caBundle.configMap }}
- name: ca
  configMap: {name: {{ .root.Values.caBundle.configMap }}, items: [{key: {{ .root.Values.caBundle.key }}, path: ca.crt}]}
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
  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
{{- end }}

{{- /* The API server, which has an address of its own outside of the pods. */}}
{{- define "okara.apiServer" -}}
# The API server, which has an address of its own outside of the pods.
- ports: [{protocol: TCP, port: 443}, {protocol: TCP, port: 6443}]
  {{- with .Values.networkPolicy.apiServer }}
  to:
  {{- range . }}
    - ipBlock: {cidr: {{ . }}}
  {{- end }}
  {{- else }}
  to:
    - ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
    - ipBlock: {cidr: "::/0", except: ["fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"]}
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

{{- /* A JSON string is an HCL string, but for what HCL would put values into. */}}
{{- define "okara.text" -}}
{{ toJson . | replace "${" "$${" | replace "%{" "%%{" }}
{{- end }}

{{- define "okara.files" -}}
[{{ range $i, $name := .names }}{{ if $i }}, {{ end }}{{ include "okara.text" (printf "%s/%s" $.folder $name) }}{{ end }}]
{{- end }}

{{- define "okara.hcl" -}}
{{- $own := .Values.frontEnd -}}
listen         = ":{{ ternary 8443 8080 (ne $own.tlsSecret "") }}"
metrics_listen = ":9090"
registry       = {{ include "okara.text" .Values.registry }}
hostname       = {{ include "okara.text" $own.hostname }}
public_url     = {{ include "okara.text" (printf "https://%s" $own.hostname) }}
log_format     = "json"
{{- if .Values.operator.enabled }}
rules_file     = "/etc/okara/rules/rules.json"
{{- end }}
{{- with $own.proxies }}
proxies        = {{ include "okara.text" . }}
{{- end }}
{{- include "okara.tls" $own.tlsSecret }}

archives {
  key_files = {{ include "okara.files" (dict "folder" "/etc/okara/keys" "names" $own.keys.archive) }}
{{- range $name, $value := $own.archives }}
  {{ $name }} = {{ include "okara.text" $value }}
{{- end }}
}

{{ include "okara.ui" $own }}
{{- include "okara.issuers" $own.issuers }}
{{- if and .Values.runs.enabled .Values.operator.enabled }}
{{- include "okara.runs" .Values.runs.cluster }}
{{- end }}
{{- with $own.config }}

{{ . | trim }}
{{- end }}
{{ end }}

{{- /* The operator is the issuer of the tokens of runs. A rule, not the token, names the cluster. */}}
{{- define "okara.runs" -}}
{{- $issuer := printf "okara-operator.%s" . | include "okara.text" }}

issuer {{ $issuer }} {
  audiences = ["okara"]
  jwks_file = "/etc/okara/runs/jwks.json"
}

rule "states of runs" {
  issuer = {{ $issuer }}
  allow  = ["write:state:{{ . }}.{namespace}/{workspace}", "read:mirror:**"]
}

rule "modules of runs" {
  issuer = {{ $issuer }}
  allow  = ["read:module:{module...}"]
}
{{- end }}

{{- define "okara.issuers" -}}
{{- range . }}

issuer {{ include "okara.text" .url }} {
  audiences = {{ include "okara.text" .audiences }}
{{- with get . "groupsClaim" }}
  groups_claim = {{ include "okara.text" . }}
{{- end }}
}
{{- end }}
{{- end }}

{{- define "okara.tls" -}}
{{- if . }}

tls {
  cert = "/etc/okara/tls/tls.crt"
  key  = "/etc/okara/tls/tls.key"
}
{{- end }}
{{- end }}

{{- define "okara.ui" -}}
ui {
  session_key_files = {{ include "okara.files" (dict "folder" "/etc/okara/keys" "names" .keys.session) }}
{{- range $name, $value := .ui }}
  {{ $name }} = {{ include "okara.text" $value }}
{{- end }}
}
{{- end }}

{{- define "okara.portal" -}}
{{- $own := .Values.portal -}}
listen         = ":{{ ternary 8443 8080 (ne $own.tlsSecret "") }}"
metrics_listen = ":9090"
hostname       = {{ include "okara.text" $own.hostname }}
public_url     = {{ include "okara.text" (printf "https://%s" $own.hostname) }}
log_format     = "json"
cluster        = {{ include "okara.text" .Values.runs.cluster }}
{{- with $own.proxies }}
proxies        = {{ include "okara.text" . }}
{{- end }}
{{- include "okara.tls" $own.tlsSecret }}

{{ include "okara.ui" $own }}
{{- include "okara.issuers" $own.issuers }}
{{- range list .Values.runs.config $own.config }}
{{- with . }}

{{ . | trim }}
{{- end }}
{{- end }}
{{ end }}

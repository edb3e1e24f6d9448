# One replica. run.sh fills in the capitals; both replicas have the same but for their own addresses.
listen         = "127.0.0.1:LISTEN"
metrics_listen = "127.0.0.1:METRICS"
public_url     = "https://127.0.0.1:FRONT" # of the load balancer
hostname       = "127.0.0.1:FRONT"
registry       = "127.0.0.1:REGISTRY/platform"
storage        = "NAME"
audit_log      = "NAME/audit.jsonl"
log_format     = "json"
token_file     = "tokens"

tls {
  cert = "tls/okara.pem"
  key  = "tls/okara.key"
}

archives {
  key_files = ["keys/archive.key"] # the first signs, all are valid
}

ui {
  session_key_files = ["keys/session.key"]
}

issuer "http://127.0.0.1:ISSUER" {
  audiences = ["okara"]
}

rule "platform" {
  issuer = "http://127.0.0.1:ISSUER"
  groups = ["platform"]
  allow  = ["admin:*:**", "write:state:**", "use:instance:sandbox/*", "approve:instance:sandbox/*"]
}

instances {
  templates = "templates"
  advertise = "https://127.0.0.1:LISTEN"
}

executor "local" {
  program = "tofu"
}

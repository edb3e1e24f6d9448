# One of the two servers: SERVER is its name, and ADDRESS its own.
listen     = "ADDRESS"
registry   = "REGISTRY"
storage    = "SERVER"
audit_log  = "SERVER.audit"
hostname   = "okara.test"
token_file = "tokens"

archives {
  key_files = ["archive.key"]
}

instances {
  templates = "templates"
  advertise = "http://ADDRESS"
}

executor "local" {
  program = "tofu"
}

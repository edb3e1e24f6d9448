# Settings of okara serve, as the service okara starts it. okara serve --help and
# https://github.com/seed-141914ff/okara/blob/main/docs/reference/serve-reference.md have all.
# "okara serve --config FILE --check" says what is wrong with this file.

# On a loopback address everybody on this machine may do everything.
listen = "127.0.0.1:8080"

# Without a registry artifacts are kept in the built-in one, in /var/lib/okara.
# registry = "registry.example.com/platform"

# For a team: a name, a certificate, and rules that say who may do what.
# listen     = ":8443"
# hostname   = "okara.example.com"
# public_url = "https://okara.example.com"
# audit_log  = "/var/log/okara/audit.jsonl"
# anonymous  = ["read:module:**"]
#
# token "ci" {
#   sha256 = "…" # as okara admin token new prints it
#   scopes = ["publish:module:acme/**", "read:*:**"]
# }
#
# The service has a user of its own, which cannot read a private key that is root's. With
#   systemctl edit okara
#     [Service]
#     LoadCredential=key.pem:/etc/okara/key.pem
# systemd reads it as root, and the service has it here:
#
# tls {
#   cert = "/etc/okara/cert.pem"
#   key  = "/run/credentials/okara.service/key.pem"
# }
#
# A port below 1024 needs AmbientCapabilities=CAP_NET_BIND_SERVICE and the same as
# CapabilityBoundingSet there.

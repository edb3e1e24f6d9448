hostname   = "127.0.0.1:8080"
public_url = "https://127.0.0.1:8080"

login {
  issuer             = "https://login.example.com"
  client_id          = "okara"
  client_secret_file = "client-secret"
  token_ttl          = "168h"
}

rule "platform team" {
  groups = ["platform"]
  allow  = ["write:state:acme"]
}

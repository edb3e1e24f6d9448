terraform {
  backend "http" {
    address        = "https://127.0.0.1:FRONT/state/mail/prod"
    lock_address   = "https://127.0.0.1:FRONT/state/mail/prod"
    unlock_address = "https://127.0.0.1:FRONT/state/mail/prod"
    username       = "okara"
  }
}

resource "terraform_data" "mail" {
  input = timestamp()
}

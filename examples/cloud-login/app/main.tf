terraform {
  cloud {
    hostname     = "127.0.0.1:8080"
    organization = "acme"
    workspaces {
      name = "shop"
    }
  }
}

resource "terraform_data" "shop" {
  input = "open"
}

output "shop" {
  value = terraform_data.shop.output
}

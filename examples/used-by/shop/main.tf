terraform {
  backend "oci" {
    repository = "127.0.0.1:8080/state/shop"
  }
}

module "dns" {
  source  = "okara.test/acme/dns/any"
  version = "1.0.0"
  zone    = "shop.example.com"
}

output "zone" {
  value = module.dns.zone
}

module "router" {
  source  = "okara.test/net/router/aws"
  version = "~> 1.0"
  cidr    = "10.0.0.0/16"
}

output "cidr" {
  value = module.router.cidr
}

module "vpc" {
  source  = "okara.test/net/vpc/aws"
  version = "1.0.0"
  cidr    = "10.0.0.0/16"
}

output "cidr" {
  value = module.vpc.cidr
}

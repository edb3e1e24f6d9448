variable "cidr" {
  type = string
}

module "greeting" {
  source  = "okara.test/acme/greeting/any"
  version = "~> 1.0"
  name    = var.cidr
}

output "text" {
  value = module.greeting.text
}

variable "cidr" {
  type = string
}

resource "terraform_data" "router" {
  input = var.cidr
}

output "cidr" {
  value = terraform_data.router.output
}

variable "cidr" {
  type        = string
  description = "Addresses of the network behind the gateway."
}

resource "terraform_data" "gateway" {
  input = var.cidr
}

output "id" {
  value = terraform_data.gateway.id
}

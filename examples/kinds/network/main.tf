variable "cidr" {
  type        = string
  description = "Addresses of the network."
  nullable    = false
}

resource "terraform_data" "network" {
  input = var.cidr
}

output "network_id" {
  value = "network-${terraform_data.network.id}"
}

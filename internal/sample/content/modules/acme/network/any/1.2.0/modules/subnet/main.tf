variable "network" {
  description = "ID of the network."
  type        = string
}

variable "name" {
  description = "Name of the subnet."
  type        = string
}

variable "cidr" {
  description = "Range of its addresses."
  type        = string
}

variable "public" {
  description = "Whether it has a way to the internet."
  type        = bool
  default     = false
}

resource "terraform_data" "subnet" {
  input = { network = var.network, name = var.name, cidr = var.cidr, public = var.public }
}

output "name" {
  description = "Name of the subnet."
  value       = var.name
}

output "cidr" {
  description = "Range of its addresses."
  value       = terraform_data.subnet.output.cidr
}

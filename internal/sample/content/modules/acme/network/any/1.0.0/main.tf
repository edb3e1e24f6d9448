variable "name" {
  description = "Name of the network."
  type        = string
}

variable "cidr" {
  description = "Range of its addresses."
  type        = string
  default     = "10.0.0.0/16"

  validation {
    condition     = can(cidrnetmask(var.cidr))
    error_message = "The range is an IPv4 prefix such as 10.0.0.0/16."
  }
}

resource "terraform_data" "network" {
  input = { name = var.name, cidr = var.cidr }
}

output "id" {
  description = "ID of the network."
  value       = terraform_data.network.id
}

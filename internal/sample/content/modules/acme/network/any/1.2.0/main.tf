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

variable "subnets" {
  description = "Subnets of the network."
  type = list(object({
    name   = string
    bits   = optional(number, 8)
    public = optional(bool, false)
  }))
  default = []
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}

variable "flow_logs" {
  description = "Whether its traffic is logged."
  type        = bool
  default     = false
}

resource "terraform_data" "network" {
  input = { name = var.name, cidr = var.cidr, tags = var.tags, flow_logs = var.flow_logs }
}

module "subnet" {
  source = "./modules/subnet"
  count  = length(var.subnets)

  network = terraform_data.network.id
  name    = var.subnets[count.index].name
  cidr    = cidrsubnet(var.cidr, var.subnets[count.index].bits, count.index)
  public  = var.subnets[count.index].public
}

output "id" {
  description = "ID of the network."
  value       = terraform_data.network.id
}

output "subnets" {
  description = "Range of each subnet, by name."
  value       = { for s in module.subnet : s.name => s.cidr }
}

variable "cidr" {
  type        = string
  description = "Addresses of the network."
  nullable    = false
}

variable "region" {
  type     = string
  nullable = false
}

variable "zones" {
  type        = set(string)
  description = "Zones that get a subnet."
  default     = ["a", "b"]
}

variable "subnets" {
  type = list(object({
    name   = string
    cidr   = string
    public = optional(bool, false)
    tags   = optional(map(string))
  }))
  default = []
}

variable "ports" {
  type    = tuple([number, string])
  default = [443, "tcp"]
}

variable "retention_days" {
  type     = number
  default  = 30
  nullable = false
}

variable "policy" {
  type    = any
  default = null
}

variable "peer_key" {
  type      = string
  sensitive = true
  default   = null
}

output "vpc_id" {
  value = "vpc-0a1b"
}

output "subnet_ids" {
  value = ["subnet-1", "subnet-2"]
}

output "peer_secret" {
  value     = var.peer_key
  sensitive = true
}

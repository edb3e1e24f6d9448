terraform {
  backend "oci" {
    repository = "REGISTRY/state/demo"
  }
}

variable "generation" {
  type    = number
  default = 1
}

variable "hold" {
  description = "Time that an apply takes at least."
  type        = string
  default     = "0s"
}

module "rotation" {
  source     = "okara.test/acme/rotation/time"
  version    = "~> 1.0"
  generation = var.generation
}

resource "time_sleep" "work" {
  create_duration = var.hold
  triggers        = { generation = var.generation }
}

terraform {
  required_providers {
    time = {
      source  = "okara.test/acme/time"
      version = "~> 0.14"
    }
  }
}

output "due" {
  value = module.rotation.due
}

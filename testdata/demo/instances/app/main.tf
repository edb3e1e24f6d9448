terraform {
  required_providers {
    time = {
      source = "okara.test/acme/time"
    }
  }
}

variable "name" {
  type = string
}

variable "size" {
  type    = string
  default = "small"
}

variable "seconds" {
  description = "Time that it takes to make one."
  type        = number
  default     = 1
}

resource "time_sleep" "made" {
  create_duration = "${var.seconds}s"
  triggers        = { size = var.size }
}

output "url" {
  value = "https://${var.name}.sandbox.example.com/${var.size}"
}

variable "name" {
  description = "Who is greeted."
  type        = string

  validation {
    condition     = length(var.name) <= 40
    error_message = "A name has at most 40 characters."
  }
}

variable "language" {
  description = "In which language: en, de or fr."
  type        = string
  default     = "en"

  validation {
    condition     = contains(["en", "de", "fr"], var.language)
    error_message = "The language is en, de or fr."
  }
}

locals {
  hello = { en = "hello", de = "hallo", fr = "bonjour" }
}

resource "terraform_data" "greeting" {
  input = "${local.hello[var.language]}, ${var.name}"
}

output "text" {
  description = "The greeting."
  value       = terraform_data.greeting.output
}

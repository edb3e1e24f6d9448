variable "name" {
  description = "Who is greeted."
  type        = string
}

resource "terraform_data" "greeting" {
  input = "hello, ${var.name}"
}

output "text" {
  description = "The greeting."
  value       = terraform_data.greeting.output
}

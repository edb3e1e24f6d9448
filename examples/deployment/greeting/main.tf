variable "name" {
  type = string
}

resource "terraform_data" "greeting" {
  input = "hello, ${var.name}"
}

output "text" {
  value = terraform_data.greeting.output
}

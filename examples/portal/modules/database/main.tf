variable "name" {
  type = string
}

variable "size" {
  type = string
}

resource "terraform_data" "database" {
  input = "${var.name} (${var.size})"
}

output "name" {
  value = terraform_data.database.output
}

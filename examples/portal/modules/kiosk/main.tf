variable "number" {
  type = string
}

resource "terraform_data" "kiosk" {
  input = var.number
}

output "number" {
  value = terraform_data.kiosk.output
}

variable "messages" {
  type        = number
  description = "How many messages it holds."
  default     = 100
  nullable    = false
}

resource "terraform_data" "queue" {
  input = var.messages
}

output "url" {
  value = "https://queues.example.com/${terraform_data.queue.id}"
}

terraform {
  cloud {
    hostname     = "127.0.0.1:FRONT"
    organization = "acme"
    workspaces {
      name = "shop"
    }
  }
}

variable "hold" {
  type    = string
  default = "no-such-file"
}

# An apply that takes until the file is gone, so that a replica can be replaced meanwhile.
resource "terraform_data" "shop" {
  triggers_replace = timestamp()
  provisioner "local-exec" {
    command = "n=0; while [ -e '${var.hold}' ] && [ $n -lt 600 ]; do n=$((n + 1)); sleep 0.2; done"
  }
}

generate "backend" {
  path      = "backend.tf"
  if_exists = "overwrite"
  contents  = <<EOT
terraform {
  backend "oci" {
    repository = "127.0.0.1:8080/state/${path_relative_to_include()}"
  }
}
EOT
}

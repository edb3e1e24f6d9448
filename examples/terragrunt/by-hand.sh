# What Terragrunt does in each unit: write the backend, pass the inputs, run the tool.
set -eu
unit() {
	cd "live/$1"
	cat >backend.tf <<EOF
terraform {
  backend "oci" {
    repository = "127.0.0.1:8080/state/live/$1"
  }
}
EOF
	TF_VAR_cidr=$2
	export TF_VAR_cidr
	tofu init
	tofu apply -auto-approve
	cidr=$(tofu output -json | jq -r '.cidr.value // empty')
	cd ../..
}
unit network 10.0.0.0/16
unit shop "$cidr"

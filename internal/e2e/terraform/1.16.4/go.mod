// Builds Terraform with its experiments, which load state storage from providers, for
// `make interop` and `make bench`. Nothing of it is shipped.
module github.com/seed-141914ff/okara/internal/e2e/terraform/v1164

go 1.26.8

require github.com/hashicorp/terraform v1.16.4

require github.com/hashicorp/terraform/internal/backend/remote-state/azure v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/azure => ./azure
require github.com/hashicorp/terraform/internal/backend/remote-state/consul v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/consul => ./consul
require github.com/hashicorp/terraform/internal/backend/remote-state/cos v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/cos => ./cos
require github.com/hashicorp/terraform/internal/backend/remote-state/gcs v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/gcs => ./gcs
require github.com/hashicorp/terraform/internal/backend/remote-state/kubernetes v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/kubernetes => ./kubernetes
require github.com/hashicorp/terraform/internal/backend/remote-state/oss v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/oss => ./oss
require github.com/hashicorp/terraform/internal/backend/remote-state/pg v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/pg => ./pg
require github.com/hashicorp/terraform/internal/backend/remote-state/s3 v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/s3 => ./s3
require github.com/hashicorp/terraform/internal/backend/remote-state/oci v0.0.0-00010101000000-000000000000
replace github.com/hashicorp/terraform/internal/backend/remote-state/oci => ./oci
replace github.com/hashicorp/terraform/internal/legacy => ./legacy

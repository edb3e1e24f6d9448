// Stands in for the module of tofu-controller's API types, which is not published.
module github.com/flux-iac/tofu-controller/api

go 1.26.0

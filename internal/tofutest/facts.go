// SPDX-License-Identifier: Apache-2.0

package tofutest

// Tool is one of the two clients. The fields are facts observed with OpenTofu
// 1.12.6 and Terraform 1.11.4.
type Tool struct {
	Name      string
	UserAgent string // for metadata

	// ArchiveAgent is the user agent for module archives. Terraform uses the default of
	// Go's HTTP library there.
	ArchiveAgent string

	// ReadsLocation says that a 200 response to a module download must be JSON, and that
	// its "location" takes precedence over the header. Terraform ignores the body.
	ReadsLocation bool

	// HeadsProvider says that a HEAD precedes the GET of a provider archive. For module
	// archives both tools do that.
	HeadsProvider bool

	// SkipsUnsigned is the host whose providers need no signing key.
	SkipsUnsigned string

	// ChecksPackages says that the "packages" field of a provider package is checked
	// against the target.
	ChecksPackages bool
}

// OpenTofu returns the facts about tofu.
func OpenTofu() Tool {
	return Tool{
		Name: "tofu", UserAgent: "OpenTofu/1.12.6", ArchiveAgent: "OpenTofu/1.12.6",
		ReadsLocation: true, SkipsUnsigned: "registry.opentofu.org", ChecksPackages: true,
	}
}

// Terraform returns the facts about terraform.
func Terraform() Tool {
	return Tool{
		Name: "terraform", UserAgent: "Terraform/1.11.4 (+https://www.terraform.io)", ArchiveAgent: "Go-http-client/1.1",
		HeadsProvider: true,
	}
}

// Tools returns both tools.
func Tools() []Tool { return []Tool{OpenTofu(), Terraform()} }

// Facts that are the same for both tools.
const (
	maxRedirects = 3       // of discovery
	maxDiscovery = 1 << 20 // bytes
	maxMetadata  = 16 << 20
)

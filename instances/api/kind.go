// SPDX-License-Identifier: Apache-2.0

package api

// Kind is a kind of the cluster that the server serves: users make what a module makes
// by objects of it, which they write themselves, with kubectl or in Git.
type Kind struct {
	Name        string   `json:"name"`        // in the plural, such as vpcs
	Kind        string   `json:"kind"`        // such as VPC
	APIVersion  string   `json:"api_version"` // GROUP/VERSION
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Icon        string   `json:"icon,omitempty"`
	Category    string   `json:"category,omitempty"`
	Tags        []string `json:"tags,omitempty"`

	Module  string `json:"module,omitempty"`  // NAMESPACE/NAME/SYSTEM, or a repository
	Version string `json:"version,omitempty"` // that new objects get
	Invalid string `json:"invalid,omitempty"` // why there can be no objects now; "": there can
	// Example is an object in YAML to begin with. Of one kind, not of those in a list.
	Example string `json:"example,omitempty"`
}

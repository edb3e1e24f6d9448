// SPDX-License-Identifier: Apache-2.0

package api

// Kind is a kind of the cluster that the server serves: users create objects of it
// themselves, with kubectl or in Git, and each object makes what the module makes.
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
	Version string `json:"version,omitempty"` // used for new objects
	Invalid string `json:"invalid,omitempty"` // why objects cannot be created now; "": they can
	// Example is an object in YAML to start from. Only for one kind, not in lists.
	Example string `json:"example,omitempty"`
}

// SPDX-License-Identifier: Apache-2.0

// Command v283 is the registry of distribution 2.8 with storage in files only.
package main

import (
	"os"

	"github.com/docker/distribution/registry"
	_ "github.com/docker/distribution/registry/storage/driver/filesystem"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}

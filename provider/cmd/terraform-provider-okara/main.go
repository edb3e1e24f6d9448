// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-141914ff/okara/internal/buildinfo"
	"github.com/seed-141914ff/okara/provider/internal/plugin"
)

func main() {
	if err := plugin.Serve(context.Background(), programVersion(os.Args[0])); err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-okara:", err)
		os.Exit(1)
	}
}

// programVersion returns the version in the name of the program, where releases have it,
// terraform-provider-okara_v1.2.3, or else what it was built from.
func programVersion(program string) string {
	if _, v, ok := strings.Cut(filepath.Base(program), "_v"); ok {
		return strings.TrimSuffix(v, ".exe")
	}
	return buildinfo.Version()
}

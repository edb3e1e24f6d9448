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

// programVersion returns the version of the module, or else the one in the name of the program,
// where releases have it: terraform-provider-okara_v1.2.3.
func programVersion(program string) string {
	if v := buildinfo.Version(); v != buildinfo.Devel {
		return v
	}
	if _, v, ok := strings.Cut(filepath.Base(program), "_v"); ok {
		return strings.TrimSuffix(v, ".exe")
	}
	return buildinfo.Devel
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/upstream"
)

func TestMain(m *testing.M) {
	if code, ok := upstream.Child(os.Args, os.Stdin, os.Stdout); ok {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"okara": main})
}

// TestScript runs testdata/script, a topic each, with $REGISTRY and a home. "release DIR VERSION
// PLATFORM..." writes a provider's.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("OKARA_UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"release": func(ts *testscript.TestScript, _ bool, args []string) {
				dir, version := ts.MkAbs(args[0]), args[1]
				ts.Check(os.MkdirAll(dir, 0o755))
				for _, platform := range args[2:] {
					zip := depottest.NewZip(t, depottest.File("terraform-provider-dns_v"+version, version+" for "+platform, 0o755))
					ts.Check(os.WriteFile(filepath.Join(dir, "terraform-provider-dns_"+version+"_"+platform+".zip"), zip, 0o600))
				}
			},
		},
		Setup: func(env *testscript.Env) error {
			host := ocitest.New(t, ocitest.Quirks{})
			home := env.WorkDir + "/.home"
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("REGISTRY", host)
			env.Setenv("OKARA_REGISTRY", host)
			env.Setenv("PORT", host[strings.LastIndexByte(host, ':')+1:])
			return nil
		},
	})
}

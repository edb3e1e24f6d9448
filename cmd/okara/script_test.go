// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-141914ff/okara/internal/ocitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"okara": main, "plain": plainMain})
}

// TestScript runs the scripts of testdata/script, one topic each, with a
// registry of its own ($REGISTRY) and an empty home directory.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("OKARA_UPDATE") != "",
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

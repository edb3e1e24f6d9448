// SPDX-License-Identifier: Apache-2.0

package credentials_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/oci"
)

// variables returns a function like os.Getenv, for the examples.
func variables(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// The most specific entry wins: that of a path before that of its host.
func ExampleResolver_Credential() {
	who := credentials.New(credentials.Options{
		Home: "/nowhere",
		Getenv: variables(map[string]string{"DOCKER_AUTH_CONFIG": `{"auths": {
			"registry.example.com":      {"username": "all", "password": "a"},
			"registry.example.com/team": {"username": "team", "password": "t"}}}`}),
	})
	for _, repository := range []string{"team/modules/vpc", "state/shop"} {
		c, err := who.Credential(context.Background(), "registry.example.com", repository)
		fmt.Println(repository, c.Username, err)
	}
	// A client takes the method as it is:
	_, err := oci.OpenRepo("registry.example.com/team/modules/vpc", oci.Options{Credential: who.Credential})
	fmt.Println(err)
	// Output:
	// team/modules/vpc team <nil>
	// state/shop all <nil>
	// <nil>
}

// Explain says which credentials there are, which one is used, and why.
func ExampleResolver_Explain() {
	who := credentials.New(credentials.Options{
		Explicit: []credentials.Setting{{Origin: "--token-file", Prefix: "ghcr.io", Credential: oci.Credential{Username: "bot", Password: "secret"}}},
		Home:     "/nowhere",
		Getenv:   variables(map[string]string{"GITHUB_TOKEN": "of-the-job"}),
	})
	all, err := who.Explain(context.Background(), "ghcr.io", "acme/vpc")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range all {
		if c.Match != "" { // others have no entry
			fmt.Printf("%t: %s %s, matches by %s\n", c.Chosen, c.Source, c.Location, c.Match)
		}
	}
	// Output:
	// true: explicit --token-file, matches by host
	// false: environment variable GITHUB_TOKEN, matches by default
	// false: anonymous no credentials, matches by default
}

// Login stores a credential where Docker and other tools find it.
func ExampleResolver_Login() {
	home, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(home)
	who := credentials.New(credentials.Options{Home: home, Getenv: variables(nil)})
	where, err := who.Login(context.Background(), "registry.example.com", oci.Credential{Username: "ann", Password: "secret"})
	fmt.Println(filepath.Base(where), err)
	c, err := who.Credential(context.Background(), "registry.example.com", "acme/vpc")
	fmt.Println(c.Username, err)
	// Output:
	// config.json <nil>
	// ann <nil>
}

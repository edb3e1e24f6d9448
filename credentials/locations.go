// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// locations finds the files of the tools on each operating system.
type locations struct {
	getenv func(string) string
	home   string // "" if there is none
	goos   string

	terraform bool // files of Terraform alone, which reads none of OpenTofu
}

// inHome returns a path below the home directory; "" if there is none.
func (p locations) inHome(elem ...string) string {
	if p.home == "" {
		return ""
	}
	return filepath.Join(append([]string{p.home}, elem...)...)
}

// inEnv returns a path below the directory that a variable names; "" if it is not set.
func (p locations) inEnv(name string, elem ...string) string {
	dir := p.getenv(name)
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// dockerConfig returns the file that docker login writes.
func (p locations) dockerConfig() string {
	if f := p.inEnv("DOCKER_CONFIG", "config.json"); f != "" {
		return f
	}
	return p.inHome(".docker", "config.json")
}

// place is one file and the name of the tool or variable that it belongs to.
type place struct{ source, file string }

// dockerFiles lists the Docker-style files, those that a variable names first.
func (p locations) dockerFiles() []place {
	list := []place{{"REGISTRY_AUTH_FILE", p.getenv("REGISTRY_AUTH_FILE")}}
	docker := place{"docker configuration", p.dockerConfig()}
	if p.getenv("DOCKER_CONFIG") != "" {
		list = append(list, docker)
	}
	list = append(list, place{"containers auth.json", p.containersRuntime()})
	if f := p.configHome("containers", "auth.json"); f != p.containersRuntime() {
		list = append(list, place{"containers auth.json", f})
	}
	if p.getenv("DOCKER_CONFIG") == "" {
		list = append(list, docker)
	}
	list = append(list, place{"legacy docker configuration", p.inHome(".dockercfg")}, place{"helm configuration", p.helmFile()})
	kept := list[:0]
	for _, pl := range list {
		if pl.file != "" {
			kept = append(kept, pl)
		}
	}
	return kept
}

// containersRuntime returns podman login's file: in the runtime directory on Linux, else at home.
func (p locations) containersRuntime() string {
	if p.goos != "linux" {
		return p.inHome(".config", "containers", "auth.json")
	}
	if f := p.inEnv("XDG_RUNTIME_DIR", "containers", "auth.json"); f != "" {
		return f
	}
	return filepath.Join("/run/containers", strconv.Itoa(os.Getuid()), "auth.json")
}

func (p locations) configHome(elem ...string) string {
	if f := p.inEnv("XDG_CONFIG_HOME", elem...); f != "" {
		return f
	}
	return p.inHome(append([]string{".config"}, elem...)...)
}

// helmFile returns the file that helm registry login writes.
func (p locations) helmFile() string {
	if f := p.getenv("HELM_REGISTRY_CONFIG"); f != "" {
		return f
	}
	tail := []string{"registry", "config.json"}
	if f := p.inEnv("HELM_CONFIG_HOME", tail...); f != "" {
		return f
	}
	tail = append([]string{"helm"}, tail...)
	if f := p.inEnv("XDG_CONFIG_HOME", tail...); f != "" {
		return f
	}
	switch p.goos {
	case "windows":
		return p.inEnv("APPDATA", tail...)
	case "darwin":
		return p.inHome(append([]string{"Library", "Preferences"}, tail...)...)
	}
	return p.inHome(append([]string{".config"}, tail...)...)
}

// cliFiles lists the CLI configuration files in the order in which their credentials blocks win: as
// in the tools, the folder overrides the single file, unless a variable names that.
func (p locations) cliFiles() []place {
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"} {
		if f := p.getenv(name); f != "" {
			return []place{{name, f}}
		}
	}
	file, dir := p.cliUnix()
	if p.goos == "windows" {
		file, dir = p.cliWindows()
	}
	var list []place
	if dir != "" {
		entries, _ := os.ReadDir(dir)                // without the folder, nothing is configured there
		for _, e := range slices.Backward(entries) { // the last name wins
			if name := e.Name(); strings.HasSuffix(name, ".tfrc") || strings.HasSuffix(name, ".tfrc.json") {
				list = append(list, place{"CLI configuration", filepath.Join(dir, name)})
			}
		}
	}
	if file != "" {
		list = append(list, place{"CLI configuration", file})
	}
	return list
}

// CLIFiles lists the CLI configuration files of a tool, those that win first; not all need to be there.
func CLIFiles(getenv func(string) string, terraform bool) (all []string) {
	home, _ := os.UserHomeDir() // without it there are fewer
	for _, f := range (locations{getenv: getenv, home: home, goos: runtime.GOOS, terraform: terraform}).cliFiles() {
		all = append(all, f.file)
	}
	return all
}

func (p locations) cliUnix() (file, dir string) {
	file = p.inHome(".tofurc")
	dir = p.inHome(".terraform.d")
	if p.terraform {
		return p.inHome(".terraformrc"), dir
	}
	legacy := p.inHome(".terraformrc")
	xdg := p.getenv("XDG_CONFIG_HOME")
	switch {
	case fileExists(file):
	case fileExists(legacy):
		file = legacy
	case xdg != "":
		file = filepath.Join(xdg, "opentofu", "tofurc")
	}
	if xdg != "" && !fileExists(dir) {
		dir = filepath.Join(xdg, "opentofu")
	}
	return file, dir
}

func (p locations) cliWindows() (file, dir string) {
	file = p.inEnv("APPDATA", "tofu.rc")
	if legacy := p.inEnv("APPDATA", "terraform.rc"); p.terraform || !fileExists(file) && fileExists(legacy) {
		file = legacy
	}
	return file, p.inEnv("APPDATA", "terraform.d")
}

func fileExists(file string) bool {
	if file == "" {
		return false
	}
	_, err := os.Stat(file)
	return err == nil
}

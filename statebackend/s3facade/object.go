// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"slices"
	"strings"
)

// Bucket is the only bucket of a facade.
const Bucket = "okara"

// Prefixes and suffixes of object keys; doc.go has the whole table.
const (
	defaultWorkspace = "default"
	workspacePrefix  = "env:/"
	remotePrefix     = "remote:/"
	stateSuffix      = "/state"
	remoteSuffix     = "/remote"
	lockSuffix       = ".tflock"
)

// Ref is one workspace of one repository.
type Ref struct {
	Repository string
	Workspace  string
	Remote     bool // read by terraform_remote_state
}

// object is what a key addresses: a state, or its lock object.
type object struct {
	Ref
	lock bool
}

// StateKey is the value of the s3 backend's "key" argument for a repository.
func StateKey(repository string) string { return repository + stateSuffix }

// RepositoryOf is the reverse of [StateKey].
func RepositoryOf(key string) (string, bool) {
	r, ok := strings.CutSuffix(key, stateSuffix)
	return r, ok && r != ""
}

// RemoteKeySuffix and RemotePrefix build "key" and "workspace_key_prefix" for
// terraform_remote_state: repository+RemoteKeySuffix and RemotePrefix+repository. The prefix limits
// a listing to that repository, even if only the tool can evaluate the name.
const (
	RemoteKeySuffix = remoteSuffix
	RemotePrefix    = remotePrefix
)

// parseKey parses an object key; ok is false if it has none of the forms in doc.go.
func parseKey(key string) (o object, ok bool) {
	key, o.lock = strings.CutSuffix(key, lockSuffix)
	o.Workspace = defaultWorkspace
	switch {
	case strings.HasPrefix(key, workspacePrefix):
		o.Workspace, key, ok = strings.Cut(strings.TrimPrefix(key, workspacePrefix), "/")
		if !ok || o.Workspace == "" {
			return object{}, false
		}
	case strings.HasPrefix(key, remotePrefix):
		return parseRemoteKey(o, strings.TrimPrefix(key, remotePrefix))
	}
	if o.Repository, ok = strings.CutSuffix(key, stateSuffix); ok {
		return o, o.Repository != ""
	}
	o.Repository, o.Remote = strings.CutSuffix(key, remoteSuffix)
	return o, o.Remote && o.Repository != "" && o.Workspace == defaultWorkspace
}

func parseRemoteKey(o object, key string) (object, bool) {
	key, ok := strings.CutSuffix(key, remoteSuffix)
	parts := strings.Split(key, "/")
	half := len(parts) / 2
	repeated := half > 0 && slices.Equal(parts[:half], parts[half+1:]) // true only for an odd number of parts
	if !ok || !repeated || parts[half] == "" {
		return object{}, false
	}
	o.Repository = strings.Join(parts[:half], "/")
	o.Workspace = parts[half]
	o.Remote = true
	return o, true
}

// objectKey returns the object key under which the tools look for a workspace.
func (p Ref) objectKey() string {
	switch {
	case p.Remote && p.Workspace == defaultWorkspace:
		return p.Repository + remoteSuffix
	case p.Remote:
		return remotePrefix + p.Repository + "/" + p.Workspace + "/" + p.Repository + remoteSuffix
	case p.Workspace == defaultWorkspace:
		return p.Repository + stateSuffix
	}
	return workspacePrefix + p.Workspace + "/" + p.Repository + stateSuffix
}

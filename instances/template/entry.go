// SPDX-License-Identifier: Apache-2.0

package template

// Entry is one template with the module version that it refers to at present.
type Entry struct {
	Template *Template
	Digest   string  // of Template
	Source   Source  // zero while there is a Problem
	Schema   *Schema // nil while there is a Problem
	From     string  // FILE, or REPOSITORY:TAG@DIGEST
	// Problem is why no instance can be made at present: the module is not available or
	// does not fit. "": there is none. A Problem pauses the pool, and is shown to users
	// who may launch the template.
	Problem string
	// Unseen reports that the module was not resolved yet: its Problem is temporary.
	Unseen bool
	// Cause is the registry's error behind the Problem. It may name hosts and
	// repositories, and is shown only to those who may fix it. "": Problem is all there
	// is.
	Cause string
	// Behind is why Source is an older version than the newest allowed one: the newest
	// does not fit. "": it is the newest.
	Behind string
}

// Problem is an error in a file or an artifact. The templates last read from it are kept.
type Problem struct {
	From string // file or name of a template
	Text string // template NAME: FILE:LINE: …
}

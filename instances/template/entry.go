// SPDX-License-Identifier: Apache-2.0

package template

// Entry is one template, and the module version that it means now.
type Entry struct {
	Template *Template
	Digest   string  // of Template
	Source   Source  // zero while there is a Problem
	Schema   *Schema // nil while there is a Problem
	From     string  // FILE, or REPOSITORY:TAG@DIGEST
	// Problem is why no instance can be made of it now: the module is not to be
	// had or does not fit. "": it can. A pool pauses with it, and whoever may launch
	// it is told.
	Problem string
	// Unseen says that nobody has looked yet what it means now: its Problem passes.
	Unseen bool
	// Cause is what the registry said where that is the problem: it may name hosts and
	// repositories, and is for those who may repair it. "": Problem is all there is.
	Cause string
	// Behind is why Source is an older version than the newest that the template
	// takes: that does not fit. "": it is the newest.
	Behind string
}

// Problem is what is wrong with a file or an artifact. The templates
// that were read of it last stay.
type Problem struct {
	From string // file or name of a template
	Text string // template NAME: FILE:LINE: …
}

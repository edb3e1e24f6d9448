// SPDX-License-Identifier: Apache-2.0

// Package remedy says what a person can do about an error of statebackend, in
// okara's commands.
//
// The errors themselves name no command: a program that uses the library has
// none. What reaches a screen goes through [Text]: the messages of cmd/okara,
// and the answers of statebackend/httpbackend and statebackend/s3facade, which
// the tools print as they come.
//
// A hint stands behind the text of the error that it is about, also where that
// is one of several, on a line of its own that begins with "hint: ".
package remedy

; Functions of the installer.

!macro CHOOSE PART IS_CHOSEN
  ${If} ${IS_CHOSEN} = 1
    !insertmacro SelectSection ${PART}
  ${Else}
    !insertmacro UnselectSection ${PART}
  ${EndIf}
!macroend

Function .onInit
  Call SetDefaults
  SetRegView 64
  ReadRegStr $Previous HKCU "${UNINSTALL_KEY}" "InstallLocation"
  Call RememberParts
  Call ReadSwitches
  ${IfNot} ${AtLeastBuild} ${OLDEST_BUILD}
    StrCpy $Status 16
    StrCpy $Problem "$(PROBLEM_WINDOWS)"
  ${EndIf}
  Call QuitIfFailed
  !insertmacro CHOOSE ${PART_STARTMENU} $AddStartMenu
  !insertmacro CHOOSE ${PART_DESKTOP} $AddDesktop
  !insertmacro CHOOSE ${PART_OPENWITH} $AddOpenWith
  !insertmacro CHOOSE ${PART_PATH} $AddPath
FunctionEnd

; Default components: those of the installed version, without an icon that the user has deleted.
Function RememberParts
  StrCpy $AddStartMenu 1
  StrCpy $AddDesktop 0
  StrCpy $AddOpenWith 1
  StrCpy $AddPath 0
  ${If} $Previous == ""
    Return
  ${EndIf}
  ${IfNot} ${FileExists} "$SMPROGRAMS\Upreel.lnk"
    StrCpy $AddStartMenu 0
  ${EndIf}
  ${If} ${FileExists} "$DESKTOP\Upreel.lnk"
    StrCpy $AddDesktop 1
  ${EndIf}
  ReadRegStr $0 HKCU "${CLASSES}\Upreel.Film\shell\open\command" ""
  ${If} $0 == ""
    StrCpy $AddOpenWith 0
  ${EndIf}
  StrCpy $PathFolder "$Previous\bin"
  StrCpy $PathChange ""
  Call UserPath
  Pop $AddPath
FunctionEnd

; Before the welcome page: note the version that is replaced.
Function SkipInUpdate
  ${If} $Mode == "update"
    Abort
  ${EndIf}
  ReadRegStr $0 HKCU "${UNINSTALL_KEY}" "DisplayVersion"
  ${If} $0 != ""
    StrCpy $PreviousVersion "$(REPLACES)"
  ${EndIf}
FunctionEnd

; Leave the folder page only if the folder is usable and Upreel is closed.
Function LeaveFolderPage
  Call CheckFolder
  ${If} $Status <> 0
    MessageBox MB_OK|MB_ICONEXCLAMATION "$Problem"
  ${Else}
    Call CloseAll
  ${EndIf}
  ${If} $Status <> 0
    StrCpy $Status 0
    Abort
  ${EndIf}
FunctionEnd

; Close Upreel in the target folder and in the folder of the installed version.
Function CloseAll
  StrCpy $Folder $INSTDIR
  Call EnsureClosed
  ${If} $Status = 0
  ${AndIf} $Previous != ""
  ${AndIf} $Previous != $INSTDIR
    StrCpy $Folder $Previous
    Call EnsureClosed
  ${EndIf}
FunctionEnd

; Check $INSTDIR and make it absolute.
Function CheckFolder
  System::Call 'kernel32::GetFullPathNameW(w "$INSTDIR", i ${NSIS_MAX_STRLEN}, w .r0, p 0)'
  StrCpy $1 $0 1 -1
  ${If} $1 == "\"
    StrCpy $0 $0 -1
  ${EndIf}
  StrCpy $INSTDIR $0
  StrLen $0 $INSTDIR
  StrCpy $1 $INSTDIR 2 1
  StrLen $2 "$LOCALAPPDATA\Upreel"
  StrCpy $3 "$INSTDIR\" $2
  StrCpy $4 "$INSTDIR\" 1 $2
  ${If} $1 != ":\"
  ${OrIf} $0 < 4
    StrCpy $Status 14
    StrCpy $Problem "$(PROBLEM_NO_DRIVE)"
  ${ElseIf} $0 > ${LONGEST_FOLDER}
    StrCpy $Status 14
    StrCpy $Problem "$(PROBLEM_LONG)"
  ${ElseIf} $3 == "$LOCALAPPDATA\Upreel"
  ${AndIf} $4 == "\"
    StrCpy $Status 14
    StrCpy $Problem "$(PROBLEM_DATA)"
  ${Else}
    Call CheckContents
  ${EndIf}
FunctionEnd

; Check that the folder is new, empty or Upreel's, and that its drive has space.
Function CheckContents
  ${IfNot} ${FileExists} "$INSTDIR\${LIST}"
  ${AndIfNot} ${FileExists} "$INSTDIR\${UNINSTALLER}"
    FindFirst $0 $1 "$INSTDIR\*.*"
    ${DoUntil} $1 == ""
      ${If} $1 != "."
      ${AndIf} $1 != ".."
      ${AndIf} $1 != "desktop.ini"
        StrCpy $Status 11
        StrCpy $Problem "$(PROBLEM_FOREIGN)"
      ${EndIf}
      FindNext $0 $1
    ${Loop}
    FindClose $0
  ${EndIf}
  StrCpy $1 $INSTDIR ; to the nearest existing folder
  ${DoUntil} ${FileExists} "$1\*.*"
    ${GetParent} $1 $1
    ${If} $1 == ""
      ${Break}
    ${EndIf}
  ${Loop}
  System::Call 'kernel32::GetDiskFreeSpaceExW(w "$1\", *l .r0, p 0, p 0) i .r2'
  System::Int64Op $0 / 1048576
  Pop $0
  ${If} $2 = 0
    StrCpy $Status 13
    StrCpy $Problem "$(PROBLEM_WRITE)"
  ${ElseIf} $0 < ${NEEDED_MB}
    StrCpy $Status 12
    StrCpy $Problem "$(PROBLEM_SPACE)"
  ${EndIf}
FunctionEnd

; Write the list before any file, and undo an interrupted setup.
Function ClaimFolder
  InitPluginsDir
  File "/oname=$PLUGINSDIR\new.files" "${FILES}"
  CreateDirectory $INSTDIR
  StrCpy $IsFresh 1
  ${If} ${FileExists} "$INSTDIR\${LIST}"
  ${OrIf} ${FileExists} "$INSTDIR\${UNINSTALLER}"
    StrCpy $IsFresh 0
  ${EndIf}
  ${If} ${FileExists} "$INSTDIR\${OLD}\*.*"
    StrCpy $ListFile "$INSTDIR\${LIST}"
    StrCpy $From "$INSTDIR\${OLD}"
    StrCpy $To $INSTDIR
    Call MoveListed
  ${EndIf}
  StrCpy $Failed ""
  !insertmacro REMOVE_TREE "" "$INSTDIR\${OLD}"
  !insertmacro REMOVE_TREE "" "$INSTDIR\${NEW}"
  ClearErrors
  ${IfNot} ${FileExists} "$INSTDIR\${LIST}" ; no previous version, or its list is lost
    CopyFiles /SILENT "$PLUGINSDIR\new.files" "$INSTDIR\${LIST}"
  ${EndIf}
  CopyFiles /SILENT "$INSTDIR\${LIST}" "$PLUGINSDIR\old.files"
  CreateDirectory "$INSTDIR\${NEW}"
  ${If} ${Errors}
  ${OrIf} $Failed != ""
    StrCpy $Status 13
    StrCpy $Problem "$(PROBLEM_WRITE)"
  ${EndIf}
FunctionEnd

; Rename the user's files at the paths of new files.
Function KeepUserFiles
  FileOpen $0 "$PLUGINSDIR\new.files" r
  ${Do}
    Call ReadEntry
    ${If} $1 == ""
      ${Break}
    ${EndIf}
    ${If} $1 == "="
    ${AndIf} ${FileExists} "$INSTDIR\$2"
      Rename "$INSTDIR\$2" "$INSTDIR\$2.kept"
    ${EndIf}
  ${Loop}
  FileClose $0
FunctionEnd

; Append the files of this version to the list of the previous one.
Function AddToList
  FileOpen $0 "$PLUGINSDIR\new.files" r
  FileOpen $3 "$INSTDIR\${LIST}" a
  FileSeek $3 0 END
  ${Do}
    FileReadUTF16LE $0 $1
    ${If} $1 == ""
      ${Break}
    ${EndIf}
    FileWriteUTF16LE $3 $1
  ${Loop}
  FileClose $3
  FileClose $0
  ClearErrors ; set at the end of the first list
FunctionEnd

; Move the files in $ListFile from $From to $To; create folders, remove the empty ones.
Function MoveListed
  StrCpy $Failed ""
  FileOpen $0 $ListFile r
  ${Do}
    Call ReadEntry
    ${If} $1 == ""
      ${Break}
    ${EndIf}
    ${If} $1 == "+"
      CreateDirectory "$To\$2"
    ${ElseIf} $1 == "="
      Call MoveFile
    ${ElseIf} $1 == "-"
      RMDir "$From\$2"
    ${EndIf}
  ${Loop}
  FileClose $0
  ClearErrors
FunctionEnd

; Move the file $2 if it exists.
Function MoveFile
  ${IfNot} ${FileExists} "$From\$2"
    Return
  ${EndIf}
  ClearErrors
  Rename "$From\$2" "$To\$2"
  ${If} ${Errors}
  ${AndIf} $Failed == ""
    StrCpy $Failed "$From\$2"
  ${EndIf}
FunctionEnd

; Move the old files away and the new ones in.
Function ReplaceFiles
  StrCpy $Phase 2
  StrCpy $ListFile "$PLUGINSDIR\old.files"
  StrCpy $From $INSTDIR
  StrCpy $To "$INSTDIR\${OLD}"
  CreateDirectory $To
  Call MoveListed
  ${If} $Failed == ""
    StrCpy $Phase 3
    Call KeepUserFiles
    Call AddToList
    StrCpy $ListFile "$PLUGINSDIR\new.files"
    StrCpy $From "$INSTDIR\${NEW}"
    StrCpy $To $INSTDIR
    Call MoveListed
  ${EndIf}
  ${If} $Failed != ""
    StrCpy $Status 17
    StrCpy $Problem "$(PROBLEM_MOVE)"
    Return
  ${EndIf}
  StrCpy $Phase 4
  Delete "$INSTDIR\${LIST}"
  CopyFiles /SILENT "$PLUGINSDIR\new.files" "$INSTDIR\${LIST}"
  WriteUninstaller "$INSTDIR\${UNINSTALLER}"
  !insertmacro REMOVE_TREE "" "$INSTDIR\${OLD}"
  !insertmacro REMOVE_TREE "" "$INSTDIR\${NEW}"
FunctionEnd

; Move all files back, so that the previous version works again.
Function Restore
  ${If} $Phase = 0
  ${OrIf} $Phase = 4
    Return
  ${EndIf}
  StrCpy $8 $Phase
  StrCpy $Phase 0
  ${If} $8 = 3
    StrCpy $ListFile "$PLUGINSDIR\new.files"
    StrCpy $From $INSTDIR
    StrCpy $To "$INSTDIR\${NEW}"
    Call MoveListed
  ${EndIf}
  ${If} $8 > 1
  ${AndIf} $IsFresh = 0
    StrCpy $ListFile "$PLUGINSDIR\old.files"
    StrCpy $From "$INSTDIR\${OLD}"
    StrCpy $To $INSTDIR
    Call MoveListed
    CopyFiles /SILENT "$PLUGINSDIR\old.files" "$INSTDIR\${LIST}"
  ${EndIf}
  SetOutPath $TEMP ; a working folder cannot be removed
  !insertmacro REMOVE_TREE "" "$INSTDIR\${OLD}"
  !insertmacro REMOVE_TREE "" "$INSTDIR\${NEW}"
  ${If} $IsFresh = 1
    Delete "$INSTDIR\${LIST}"
    RMDir $INSTDIR
  ${EndIf}
FunctionEnd

Function StopIfFailed
  ${If} $Status <> 0
    Call Restore
    SetErrorLevel $Status
    ${If} $Status <> 1
      MessageBox MB_OK|MB_ICONSTOP "$Problem" /SD IDOK
    ${EndIf}
    SetDetailsPrint both
    Abort $Problem
  ${EndIf}
FunctionEnd

; Also after unpacking has failed: a full disk, a damaged setup.
Function .onInstFailed
  Call Restore
FunctionEnd

; Write the entry in Windows' list of programs; remove the previous version from another folder.
Function WriteEntry
  ${If} $Previous != ""
  ${AndIf} $Previous != $INSTDIR
    StrCpy $From $Previous
    StrCpy $ListFile "$Previous\${LIST}"
    Call DeleteListed
    Call RemoveProgramValues
    StrCpy $PathFolder "$Previous\bin"
    StrCpy $PathChange "remove"
    Call UserPath
    Pop $0
    Delete "$Previous\${LIST}"
    Delete "$Previous\${UNINSTALLER}"
    RMDir $Previous
  ${EndIf}
  Call Unregister ; the chosen components follow
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayName" "Upreel"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayVersion" "${VERSION}"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "DisplayIcon" "$INSTDIR\upreel.exe,0"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "Publisher" "The Upreel developers"
  WriteRegStr HKCU "${UNINSTALL_KEY}" "InstallLocation" $INSTDIR
  WriteRegStr HKCU "${UNINSTALL_KEY}" "UninstallString" '"$INSTDIR\${UNINSTALLER}"'
  WriteRegStr HKCU "${UNINSTALL_KEY}" "QuietUninstallString" '"$INSTDIR\${UNINSTALLER}" /S'
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "EstimatedSize" ${SIZE_KB}
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL_KEY}" "NoRepair" 1
FunctionEnd

Function .onInstSuccess
  ${If} $RunsAfter = 1
    Exec '"$INSTDIR\upreel.exe"'
  ${EndIf}
FunctionEnd

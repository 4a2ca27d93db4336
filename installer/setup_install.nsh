; Functions that only the installer has.

!macro CHOOSE PART WANTS
  ${If} ${WANTS} = 1
    !insertmacro SelectSection ${PART}
  ${Else}
    !insertmacro UnselectSection ${PART}
  ${EndIf}
!macroend

Function .onInit
  Call Begin
  SetRegView 64
  ReadRegStr $Before HKCU "${UNINSTALL_KEY}" "InstallLocation"
  Call RememberParts
  Call ReadSwitches
  ${IfNot} ${AtLeastBuild} ${OLDEST_BUILD}
    StrCpy $Status 16
    StrCpy $Problem "$(PROBLEM_WINDOWS)"
  ${EndIf}
  Call QuitIfFailed
  !insertmacro CHOOSE ${PART_STARTMENU} $WantsStartMenu
  !insertmacro CHOOSE ${PART_DESKTOP} $WantsDesktop
  !insertmacro CHOOSE ${PART_OPENWITH} $WantsOpenWith
FunctionEnd

; Components of a version before as they are now: who has deleted the icon does not get it again.
Function RememberParts
  StrCpy $WantsStartMenu 1
  StrCpy $WantsDesktop 0
  StrCpy $WantsOpenWith 1
  ${If} $Before == ""
    Return
  ${EndIf}
  ${IfNot} ${FileExists} "$SMPROGRAMS\Upreel.lnk"
    StrCpy $WantsStartMenu 0
  ${EndIf}
  ${If} ${FileExists} "$DESKTOP\Upreel.lnk"
    StrCpy $WantsDesktop 1
  ${EndIf}
  ReadRegStr $0 HKCU "${CLASSES}\Upreel.Film\shell\open\command" ""
  ${If} $0 == ""
    StrCpy $WantsOpenWith 0
  ${EndIf}
FunctionEnd

; Before the welcome page: say which version goes.
Function SkipInUpdate
  ${If} $Mode == "update"
    Abort
  ${EndIf}
  ReadRegStr $0 HKCU "${UNINSTALL_KEY}" "DisplayVersion"
  ${If} $0 != ""
    StrCpy $VersionBefore "$(REPLACES)"
  ${EndIf}
FunctionEnd

; From the page of the folder to the work, only when nothing speaks against it.
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

; Upreel in the folder that it goes to, and in the one where it is.
Function CloseAll
  StrCpy $Folder $INSTDIR
  Call EnsureClosed
  ${If} $Status = 0
  ${AndIf} $Before != ""
  ${AndIf} $Before != $INSTDIR
    StrCpy $Folder $Before
    Call EnsureClosed
  ${EndIf}
FunctionEnd

; Whether $INSTDIR will do; makes it absolute.
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

; Whether the folder is new, empty or ours, and its drive has space.
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
  StrCpy $1 $INSTDIR ; the nearest folder that is there
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

; Make the folder ours before anything of ours lies there, and finish what a cut has left.
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
  ${IfNot} ${FileExists} "$INSTDIR\${LIST}" ; the list of a version before is lost, or there was none
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

; Give other names to files of the user that lie where new ones go.
Function KeepOthers
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

; What this version brings is ours from here on, beside what the one before has brought.
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
  ClearErrors ; set by the end of the first list
FunctionEnd

; Move what $ListFile names from $From to $To, folders first made, then removed when empty.
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

; Move the file $2, where it is.
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

; The old files away, the new ones in.
Function PutInPlace
  StrCpy $Phase 2
  StrCpy $ListFile "$PLUGINSDIR\old.files"
  StrCpy $From $INSTDIR
  StrCpy $To "$INSTDIR\${OLD}"
  CreateDirectory $To
  Call MoveListed
  ${If} $Failed == ""
    StrCpy $Phase 3
    Call KeepOthers
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

; Undo what was done to the files, so that the version before works again.
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
  SetOutPath $TEMP ; nobody stays in a folder that goes
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

; Also when unpacking was stopped: a full disk, a damaged setup.
Function .onInstFailed
  Call Restore
FunctionEnd

; The entry in Windows' list of programs; a copy of ours in another folder goes.
Function WriteEntry
  ${If} $Before != ""
  ${AndIf} $Before != $INSTDIR
    StrCpy $From $Before
    StrCpy $ListFile "$Before\${LIST}"
    Call DeleteListed
    Call ForgetPrograms
    Delete "$Before\${LIST}"
    Delete "$Before\${UNINSTALLER}"
    RMDir $Before
  ${EndIf}
  Call Unregister ; the components that are chosen follow
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

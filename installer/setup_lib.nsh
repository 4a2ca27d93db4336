; Functions of Upreel's setup. SHARED is inserted twice: for the installer, and with "un." for the
; uninstaller. $0 to $9 are local to a function unless its comment names them; variables are shared.

!define HKCU_HANDLE -2147483647 ; 0x80000001 with its sign
!define AS_IT_IS 0x10000006 ; text, with or without variables, which are not replaced

!macro OPENER KIND
  WriteRegStr HKCU "${CLASSES}\${KIND}\DefaultIcon" "" "$INSTDIR\upreel.exe,0"
  WriteRegStr HKCU "${CLASSES}\${KIND}\shell\open" "MultiSelectModel" "Player" ; more than 15 files
  WriteRegStr HKCU "${CLASSES}\${KIND}\shell\open\command" "" '"$INSTDIR\upreel.exe" "%1"'
!macroend

!macro OPENED_BY TYPE KIND
  WriteRegStr HKCU "${CLASSES}\${TYPE}\OpenWithProgids" "${KIND}" ""
  WriteRegStr HKCU "${CLASSES}\Applications\upreel.exe\SupportedTypes" "${TYPE}" ""
!macroend

!macro NOT_OPENED_BY TYPE KIND
  DeleteRegValue HKCU "${CLASSES}\${TYPE}\OpenWithProgids" "${KIND}"
  DeleteRegKey /ifempty HKCU "${CLASSES}\${TYPE}\OpenWithProgids"
  DeleteRegKey /ifempty HKCU "${CLASSES}\${TYPE}"
!macroend

!macro REMOVE_TREE UN PATH
  Push "${PATH}"
  Call ${UN}RemoveTree
!macroend

!macro FIND_PROGRAM NAME
  System::Call 'kernel32::CreateFileW(w "$Folder\${NAME}", i 0x40000000, i 7, p 0, i 3, i 0, p 0) p .r1 ?e'
  Pop $2
  ${If} $1 = -1
    ${If} $2 = 32 ; a sharing violation: a running program cannot be opened for writing
      StrCpy $0 1
    ${EndIf}
  ${Else}
    System::Call 'kernel32::CloseHandle(p r1)'
  ${EndIf}
!macroend

!macro SHARED UN

; Read the switches of the command line, split by Windows' own rules.
Function ${UN}ReadSwitches
  System::Call 'kernel32::GetCommandLineW() p .r0'
  System::Call 'shell32::CommandLineToArgvW(p r0, *i .r1) p .r2'
  IntOp $1 $1 - 1
  ${For} $3 1 $1
    IntOp $4 $3 * 8
    IntPtrOp $4 $2 + $4
    System::Call '*$4(w .r5)'
    Call ${UN}ApplySwitch
  ${Next}
  System::Call 'kernel32::LocalFree(p r2)'
FunctionEnd

; Apply one switch, in $5.
Function ${UN}ApplySwitch
  StrCpy $6 $5 6
  StrCpy $7 $5 "" 6
  ${Select} $5
  ${Case} "/CLOSE"
    StrCpy $Closes 1
  ${Case} "/RUN"
    StrCpy $RunsAfter 1
  ${Case} "/PURGE"
    StrCpy $Purges 1
  ${Case} "/UPDATE"
    StrCpy $RunsAfter 1
    StrCpy $Wait 120
    ${IfNot} ${Silent}
      StrCpy $Mode "update"
      SetAutoClose true
    ${EndIf}
  ${Case} "/LANG=en"
    StrCpy $LANGUAGE ${LANG_ENGLISH}
  ${Case} "/LANG=zh"
    StrCpy $LANGUAGE ${LANG_SIMPCHINESE}
  ${Case2} "/STARTMENU=0" "/STARTMENU=1"
    StrCpy $AddStartMenu $5 1 -1
  ${Case2} "/DESKTOP=0" "/DESKTOP=1"
    StrCpy $AddDesktop $5 1 -1
  ${Case2} "/OPENWITH=0" "/OPENWITH=1"
    StrCpy $AddOpenWith $5 1 -1
  ${Case2} "/PATH=0" "/PATH=1"
    StrCpy $AddPath $5 1 -1
  ${EndSelect}
  ${If} $6 == "/WAIT="
    StrCpy $Wait $7
  ${EndIf}
  StrCpy $6 $5 5
  ${If} $6 == "/DIR="
    StrCpy $INSTDIR $5 "" 5
  ${EndIf}
FunctionEnd

; Set the defaults of all switches.
Function ${UN}SetDefaults
  StrCpy $Status 0
  StrCpy $Phase 0
  StrCpy $Mode "ask"
  StrCpy $Wait 30
  ${If} ${Silent}
    StrCpy $Mode "silent"
    StrCpy $Wait 10
  ${EndIf}
  StrLen $0 $INSTDIR
  StrCpy $1 $INSTDIR 1 -1
  ${If} $1 == "\" ; NSIS adds it
  ${AndIf} $0 > 3
    StrCpy $INSTDIR $INSTDIR -1
  ${EndIf}
  System::Call 'kernel32::CreateMutexW(p 0, i 0, w "Local\Upreel.Setup") p .r0 ?e'
  Pop $0
  ${If} $0 = 183 ; it exists already
    StrCpy $Status 15
    StrCpy $Problem "$(PROBLEM_TWICE)"
  ${EndIf}
FunctionEnd

; End before any page if $Status is not 0.
Function ${UN}QuitIfFailed
  ${If} $Status <> 0
    SetErrorLevel $Status
    MessageBox MB_OK|MB_ICONSTOP "$Problem" /SD IDOK
    Quit
  ${EndIf}
FunctionEnd

; Push 1 if Upreel runs from $Folder, else 0.
Function ${UN}FindPrograms
  StrCpy $0 0
  !insertmacro FIND_PROGRAM "upreel.exe"
  !insertmacro FIND_PROGRAM "upreel-cli.exe"
  Push $0
FunctionEnd

; Close the windows of $Folder\upreel.exe as a click on their X does.
Function ${UN}CloseWindows
  StrCpy $0 0
  ${For} $4 1 5000 ; an upper bound: windows may open and close meanwhile
    System::Call 'user32::FindWindowExW(p 0, p r0, p 0, p 0) p .r0'
    ${If} $0 P= 0
      ${Break}
    ${EndIf}
    System::Call 'user32::IsWindowVisible(p r0) i .r1'
    System::Call 'user32::GetWindow(p r0, i 4) p .r2' ; its owner
    ${If} $1 <> 0
    ${AndIf} $2 P= 0
      System::Call 'user32::GetWindowThreadProcessId(p r0, *i .r1)'
      System::Call 'kernel32::OpenProcess(i 0x1000, i 0, i r1) p .r2'
      System::Call 'kernel32::QueryFullProcessImageNameW(p r2, i 0, w .r3, *i ${NSIS_MAX_STRLEN})'
      System::Call 'kernel32::CloseHandle(p r2)'
      ${If} $3 == "$Folder\upreel.exe"
        System::Call 'user32::AllowSetForegroundWindow(i r1)'
        System::Call 'user32::PostMessageW(p r0, i 0x10, p 0, p 0)' ; WM_CLOSE
      ${EndIf}
    ${EndIf}
  ${Next}
FunctionEnd

; Wait until Upreel does not run from $Folder; $Status is 1 or 10 if it still does.
Function ${UN}EnsureClosed
  Call ${UN}FindPrograms
  Pop $9
  ${If} $9 = 0
    Return
  ${EndIf}
  ${If} $Mode == "ask"
    MessageBox MB_OKCANCEL|MB_ICONQUESTION "$(ASK_CLOSE)" IDOK again
    StrCpy $Status 1
    Return
  ${EndIf}
again:
  ${If} $Mode == "ask"
  ${OrIf} $Closes = 1
    Call ${UN}CloseWindows
  ${EndIf}
  ${If} $Mode == "ask"
    Banner::show "$(WAITING)"
  ${Else}
    DetailPrint "$(WAITING)"
  ${EndIf}
  IntOp $8 $Wait * 4
  ${For} $7 1 $8
    Sleep 250
    Call ${UN}FindPrograms
    Pop $9
    ${If} $9 = 0
      ${Break}
    ${EndIf}
  ${Next}
  ${If} $Mode == "ask"
    Banner::destroy
  ${EndIf}
  ${If} $9 = 0
    Return
  ${EndIf}
  StrCpy $Status 10
  StrCpy $Problem "$(PROBLEM_RUNNING)"
  ${If} $Mode != "silent"
    MessageBox MB_RETRYCANCEL|MB_ICONEXCLAMATION "$(STILL_OPEN)" IDCANCEL given_up
    StrCpy $Status 0
    Goto again
given_up:
    StrCpy $Status 1
  ${EndIf}
FunctionEnd

; Remove the file or folder whose path is on the stack. Of a link, only the link is removed.
Function ${UN}RemoveTree
  Exch $0
  Push $1
  Push $2
  Push $3
  System::Call 'kernel32::GetFileAttributesW(w r0) i .r3'
  ${If} $3 <> -1
    IntOp $1 $3 & 0x10 ; a folder
    IntOp $2 $3 & 0x400 ; a link
    ${If} $1 = 0
      System::Call 'kernel32::SetFileAttributesW(w r0, i 0x80)'
      System::Call 'kernel32::DeleteFileW(w r0) i .r3'
    ${Else}
      ${If} $2 = 0
        FindFirst $1 $2 "$0\*.*"
        ${DoUntil} $2 == ""
          ${If} $2 != "."
          ${AndIf} $2 != ".."
            !insertmacro REMOVE_TREE "${UN}" "$0\$2"
          ${EndIf}
          FindNext $1 $2
        ${Loop}
        FindClose $1
      ${EndIf}
      System::Call 'kernel32::RemoveDirectoryW(w r0) i .r3'
    ${EndIf}
    ${If} $3 = 0
    ${AndIf} $Failed == ""
      StrCpy $Failed $0
    ${EndIf}
  ${EndIf}
  Pop $3
  Pop $2
  Pop $1
  Pop $0
FunctionEnd

; Remove the files in $ListFile below $From; missing ones are no error.
Function ${UN}DeleteListed
  ClearErrors
  FileOpen $0 $ListFile r
  ${If} ${Errors}
    Return
  ${EndIf}
  ${Do}
    Call ${UN}ReadEntry
    ${If} $1 == ""
      ${Break}
    ${EndIf}
    ${If} $1 == "="
      ${If} ${FileExists} "$From\$2"
        ClearErrors
        SetFileAttributes "$From\$2" NORMAL
        Delete "$From\$2"
        ${If} ${FileExists} "$From\$2"
        ${AndIf} $Failed == ""
          StrCpy $Failed "$From\$2"
        ${EndIf}
      ${EndIf}
    ${ElseIf} $1 == "-"
      RMDir "$From\$2"
    ${EndIf}
  ${Loop}
  FileClose $0
FunctionEnd

; Read the next line of the list $0: its sign to $1 ("" at the end), its path to $2.
Function ${UN}ReadEntry
  FileReadUTF16LE $0 $2
  StrCpy $1 $2 1
  StrCpy $2 $2 -2 1 ; without the sign and the line end
FunctionEnd

; Remove the entries in the Start menu, on the desktop, of file types and in the PATH.
Function ${UN}Unregister
  Delete "$SMPROGRAMS\Upreel.lnk"
  Delete "$DESKTOP\Upreel.lnk"
  DeleteRegKey HKCU "${CLASSES}\Applications\upreel.exe"
  DeleteRegKey HKCU "${CLASSES}\Upreel.Film"
  DeleteRegKey HKCU "${CLASSES}\Upreel.Latent"
  !insertmacro EACH_FILM_TYPE NOT_OPENED_BY Upreel.Film
  !insertmacro NOT_OPENED_BY .latent Upreel.Latent
  StrCpy $PathFolder "$INSTDIR\bin"
  StrCpy $PathChange "remove"
  Call ${UN}UserPath
  Pop $0
FunctionEnd

; Look for $PathFolder in the user's PATH, and make $PathChange to it. Pushes 1 if it was there, else 0.
; A PATH may be longer than a string of NSIS, which would cut it off: it is changed in memory of its
; own, as ";entry;entry;", and written only as a whole. If it cannot be read, nothing is changed.
Function ${UN}UserPath
  StrCpy $9 0
  StrCpy $4 0
  System::Call 'advapi32::RegGetValueW(p ${HKCU_HANDLE}, w "Environment", w "Path", i ${AS_IT_IS}, *i .r3, p 0, *i r4r4) i .r5'
  ${If} $5 = 2 ; there is none
    StrCpy $3 2 ; REG_EXPAND_SZ
    StrCpy $4 0
  ${ElseIf} $5 <> 0
    Push $9
    Return
  ${EndIf}
  StrLen $6 "$PathFolder;"
  IntOp $7 $6 * 2
  IntOp $7 $7 + $4
  IntOp $7 $7 + 16
  System::Alloc $7
  Pop $1
  System::Call 'kernel32::lstrcpyW(p r1, w ";")'
  IntPtrOp $2 $1 + 2
  ${If} $4 > 0
    System::Call 'advapi32::RegGetValueW(p ${HKCU_HANDLE}, w "Environment", w "Path", i ${AS_IT_IS}, p 0, p r2, *i r4r4) i .r5'
    ${If} $5 <> 0
      System::Free $1
      Push $9
      Return
    ${EndIf}
  ${EndIf}
  System::Call 'kernel32::lstrcatW(p r1, w ";")'
  System::Call 'shlwapi::StrStrIW(p r1, w ";$PathFolder;") p .r8'
  ${If} $8 P<> 0
    StrCpy $9 1
  ${EndIf}
  ${If} $PathChange == "add"
  ${AndIf} $9 = 0
    System::Call 'kernel32::lstrcatW(p r1, w "$PathFolder")'
    ${If} $4 <= 2 ; the entry is the only one
      IntPtrOp $2 $2 + 2
    ${EndIf}
    Call ${UN}WriteUserPath
  ${ElseIf} $PathChange == "remove"
  ${AndIf} $9 = 1
    System::Call 'kernel32::lstrlenW(p r8) i .r7'
    IntOp $7 $7 - $6
    IntOp $7 $7 + 1
    IntOp $7 $7 * 2 ; bytes from the second ";" on
    IntOp $6 $6 * 2
    IntPtrOp $0 $8 + $6
    System::Call 'kernel32::RtlMoveMemory(p r8, p r0, p r7)'
    System::Call 'kernel32::lstrlenW(p r1) i .r7'
    ${If} $7 < 2
      DeleteRegValue HKCU "Environment" "Path"
    ${Else}
      IntOp $7 $7 - 1 ; without the last ";"
      IntOp $7 $7 * 2
      IntPtrOp $0 $1 + $7
      System::Call '*$0(&i2 0)'
      Call ${UN}WriteUserPath
    ${EndIf}
  ${EndIf}
  System::Free $1
  Push $9
FunctionEnd

; Write the PATH at address $2 with the type $3, and tell open programs, such as Explorer.
Function ${UN}WriteUserPath
  System::Call 'kernel32::lstrlenW(p r2) i .r7'
  IntOp $7 $7 + 1
  IntOp $7 $7 * 2
  System::Call 'advapi32::RegSetKeyValueW(p ${HKCU_HANDLE}, w "Environment", w "Path", i r3, p r2, i r7)'
  System::Call 'user32::SendMessageTimeoutW(p 0xffff, i 0x1a, p 0, w "Environment", i 2, i 5000, *p .r0)'
FunctionEnd

; Remove registry values of Windows and of the program about a program in $From.
Function ${UN}RemoveProgramValues
  DeleteRegValue HKCU "${GPU_KEY}" "$From\upreel.exe"
  DeleteRegKey /ifempty HKCU "${GPU_KEY}"
  StrCpy $0 "${CLASSES}\Local Settings\Software\Microsoft\Windows\Shell\MuiCache"
  DeleteRegValue HKCU $0 "$From\upreel.exe.FriendlyAppName"
  DeleteRegValue HKCU $0 "$From\upreel.exe.ApplicationCompany"
FunctionEnd

!macroend
